"""How a job reaches its nodes: two documents of Systems Manager, one that runs it and one that ends it.

Their only text from outside are names that match a pattern without a character that a shell would read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from aws_cdk import aws_ssm as ssm
from constructs import Construct

from slipway.infra.declare.types import MpiCluster
from slipway.jobs.words.job import NAME
from slipway.jobs.words.names import derived_name

NODE_COMMAND = "/opt/slipway/venv/bin/slipway-node"
_STOP_SECONDS = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDocumentsProps:
    cluster: MpiCluster


class RunDocuments(Construct):
    def __init__(self, scope: Construct, id: str, *, props: RunDocumentsProps) -> None:
        super().__init__(scope, id)
        self.run = _document(self, "Run", document_name(props.cluster.name, "run"), _run(props.cluster))
        self.stop = _document(self, "Stop", document_name(props.cluster.name, "stop"), _stop(props.cluster))


def document_name(cluster: str, verb: str) -> str:
    return derived_name("document", f"slipway-{cluster}", verb)


def _run(cluster: MpiCluster) -> Mapping[str, object]:
    parameters = {
        "RequestKey": _text(
            "Where the request lies in the cluster's bucket", rf"^jobs/{NAME}/request\.json$"
        ),
        "TimeoutSeconds": {
            **_text("When the job is ended", "^[1-9][0-9]{1,5}$"),
            "default": str(cluster.job_timeout // timedelta(seconds=1)),
        },
    }
    return _content(
        f"Runs one job on Slipway cluster {cluster.name}; sent to its main node",
        parameters,
        f"exec {NODE_COMMAND} run '{{{{ RequestKey }}}}'",
        "{{ TimeoutSeconds }}",
    )


def _stop(cluster: MpiCluster) -> Mapping[str, object]:
    return _content(
        f"Ends what a job left on a node of Slipway cluster {cluster.name}",
        {"Job": _text("The job's name", f"^{NAME}$")},
        f"exec {NODE_COMMAND} stop '{{{{ Job }}}}'",
        str(_STOP_SECONDS),
    )


def _text(description: str, pattern: str) -> Mapping[str, str]:
    return {"type": "String", "description": description, "allowedPattern": pattern}


def _content(
    description: str, parameters: Mapping[str, object], command: str, timeout: str
) -> Mapping[str, object]:
    step = {
        "action": "aws:runShellScript",
        "name": "node",
        "inputs": {"timeoutSeconds": timeout, "runCommand": [command]},
    }
    return {
        "schemaVersion": "2.2",
        "description": description,
        "parameters": parameters,
        "mainSteps": [step],
    }


def _document(scope: Construct, id: str, name: str, content: Mapping[str, object]) -> ssm.CfnDocument:
    return ssm.CfnDocument(
        scope,
        id,
        name=name,
        document_type="Command",
        document_format="JSON",
        target_type="/AWS::EC2::Instance",
        update_method="NewVersion",  # a changed one keeps its name, which target records hold
        content=content,
    )
