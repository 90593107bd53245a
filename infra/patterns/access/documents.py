"""Documents of Systems Manager by which jobs reach machines: one shell command, with parameters."""

from __future__ import annotations

from collections.abc import Mapping

from aws_cdk import aws_ssm as ssm
from constructs import Construct


def command_document(scope: Construct, id: str, name: str, content: Mapping[str, object]) -> ssm.CfnDocument:
    return ssm.CfnDocument(
        scope,
        id,
        name=name,
        document_type="Command",
        document_format="JSON",
        target_type="/AWS::EC2::Instance",
        update_method="NewVersion",  # a changed document keeps its name, which target records hold
        content=content,
    )


def command_content(
    description: str, parameters: Mapping[str, object], *, step: str, command: str, timeout: str
) -> Mapping[str, object]:
    run = {
        "action": "aws:runShellScript",
        "name": step,
        "inputs": {"timeoutSeconds": timeout, "runCommand": [command]},
    }
    return {
        "schemaVersion": "2.2",
        "description": description,
        "parameters": parameters,
        "mainSteps": [run],
    }


def text_parameter(description: str, pattern: str) -> Mapping[str, str]:
    """Describe a text from outside by a pattern without any character that is special to a shell."""
    return {"type": "String", "description": description, "allowedPattern": pattern}
