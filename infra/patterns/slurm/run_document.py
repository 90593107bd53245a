"""How jobs reach Slurm from outside: one document of Systems Manager, which acts on the login node.

What comes from outside matches a pattern without a character that a shell would read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from aws_cdk import aws_ssm as ssm
from constructs import Construct

from slipway.infra.declare.types import SlurmCluster
from slipway.jobs.words.job import NAME
from slipway.jobs.words.names import derived_name
from slipway.jobs.words.slurm import ACTIONS, NODE_MODULE, PYTHON

_WORDS = ("Action", "Request", "Digest")
_SECONDS = 300  # the controller answers at once, or nothing does


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDocumentProps:
    cluster: SlurmCluster


class RunDocument(Construct):
    def __init__(self, scope: Construct, id: str, *, props: RunDocumentProps) -> None:
        super().__init__(scope, id)
        self.resource = ssm.CfnDocument(
            self,
            "Resource",
            name=run_document_name(props.cluster.name),
            document_type="Command",
            document_format="JSON",
            target_type="/AWS::EC2::Instance",
            update_method="NewVersion",  # a changed one keeps its name, which target records hold
            content=_content(props.cluster),
        )


def run_document_name(cluster: str) -> str:
    return derived_name("document", f"slipway-{cluster}", "slurm")


def _node_command() -> str:
    """Return what starts the login node's program; the document's parameters fill its words."""
    return " ".join(["exec", PYTHON, "-m", NODE_MODULE, *(f"'{{{{ {word} }}}}'" for word in _WORDS)])


def _word_parameters() -> Mapping[str, Mapping[str, object]]:
    return {
        "Action": {"type": "String", "description": "What to do", "allowedValues": list(ACTIONS)},
        "Request": _text("Where a job's request lies in the bucket", rf"^(jobs/{NAME}/request\.json)?$"),
        "Digest": _text("SHA-256 of the request", "^([0-9a-f]{64})?$"),
    }


def _content(cluster: SlurmCluster) -> Mapping[str, object]:
    step = {
        "action": "aws:runShellScript",
        "name": "login",
        "inputs": {"timeoutSeconds": str(_SECONDS), "runCommand": [_node_command()]},
    }
    return {
        "schemaVersion": "2.2",
        "description": f"Submits to, asks and cancels on Slipway cluster {cluster.name}; for its login node",
        "parameters": _word_parameters(),
        "mainSteps": [step],
    }


def _text(description: str, pattern: str) -> Mapping[str, object]:
    return {"type": "String", "description": description, "allowedPattern": pattern, "default": ""}
