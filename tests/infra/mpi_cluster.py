"""Reads c6i's templates for tests: nodes, their group, their permissions, their documents."""

from __future__ import annotations

from typing import Any

from tests.infra.patterns.nodes.test_user_data import told_to_node
from tests.infra.synthesis import Properties, as_text, mpi_templates_of, of_type, only

GROUP = "AWS::AutoScaling::AutoScalingGroup"


def launch(**changes: Any) -> Properties:
    template = only(mpi_templates_of(**changes).compute, "AWS::EC2::LaunchTemplate")
    data: Properties = template["LaunchTemplateData"]
    return data


def group(**changes: Any) -> Properties:
    return only(mpi_templates_of(**changes).compute, GROUP)


def told(**changes: Any) -> dict[str, Any]:
    return told_to_node(as_text(launch(**changes)["UserData"]))


def statements() -> dict[str, Properties]:
    """Return what a node may do; jobs have another policy."""
    return next(found for found in policies() if "ReadTheClustersSecret" in found)


def node_role() -> str:
    """Return the name of the role that EC2 gives to the nodes; jobs have another."""
    (found,) = [
        name
        for name, role in of_type(mpi_templates_of().compute, "AWS::IAM::Role").items()
        if "Service" in role["AssumeRolePolicyDocument"]["Statement"][0]["Principal"]
    ]
    return str(found)


def policies() -> list[dict[str, Properties]]:
    found = of_type(mpi_templates_of().compute, "AWS::IAM::ManagedPolicy").values()
    return [{each["Sid"]: each for each in policy["PolicyDocument"]["Statement"]} for policy in found]


def document(beginning: str, **changes: Any) -> Properties:
    documents = of_type(mpi_templates_of(**changes).compute, "AWS::SSM::Document")
    (found,) = [each for name, each in documents.items() if name.startswith(beginning)]
    return found
