"""How jobs reach Slurm on HyperPod: one document of Session Manager, which acts on the login node.

Systems Manager sends commands to i-… and mi-… alone (API reference, SendCommand, InstanceIds); a node of
HyperPod is reached in sessions, as sagemaker-cluster:… (StartSession, Target).
"""

from __future__ import annotations

from aws_cdk import aws_ssm as ssm
from constructs import Construct

from slipway.infra.patterns.slurm.run_document import node_command, run_document_name, word_parameters


class SessionDocument(Construct):
    def __init__(self, scope: Construct, id: str, *, cluster: str) -> None:
        super().__init__(scope, id)
        self.resource = ssm.CfnDocument(
            self,
            "Resource",
            name=run_document_name(cluster),
            document_type="Session",
            document_format="JSON",
            update_method="NewVersion",  # a changed one keeps its name, which target records hold
            content={
                "schemaVersion": "1.0",
                "description": f"Submits to, asks and cancels on Slipway cluster {cluster}",
                "sessionType": "NonInteractiveCommands",
                "parameters": dict(word_parameters()),
                "properties": {"linux": {"commands": node_command(), "runAsElevated": True}},
            },
        )
