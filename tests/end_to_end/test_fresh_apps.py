"""An app as `cdk init` leaves it to a newcomer, with nothing in it written for the yard."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.end_to_end.conftest import THROUGH_GATE, Shell

# Each day test_own_stacks.py deploys an app of a user's own, and the round trips of tests/yard every type.
pytestmark = [pytest.mark.cdk, pytest.mark.long]


def cdk(folder: Path, verb: str, *arguments: str) -> tuple[str, ...]:
    return (
        *THROUGH_GATE,  # CDK's own, in an app that has none of ours
        "cdk",
        verb,
        "--app",
        "python -m tests.end_to_end.apps.fresh",
        "--output",
        str(folder),
        *arguments,
    )


@pytest.fixture
def outputs(shell: Shell, tmp_path: Path) -> dict[str, str]:
    shell.must(*cdk(tmp_path, "deploy", "--require-approval", "never", "--tags", "team=ml"))
    (stack,) = shell.client("cloudformation").describe_stacks(StackName="fresh")["Stacks"]
    return {one["OutputKey"]: one["OutputValue"] for one in stack["Outputs"]}


def test_a_fresh_app_is_deployed_as_it_is_and_goes_with_what_it_holds(
    shell: Shell, tmp_path: Path, outputs: dict[str, str]
) -> None:
    group = shell.client("ec2").describe_security_groups(GroupIds=[outputs["GroupName"]])["SecurityGroups"][0]
    assert (group["IpPermissions"], group["IpPermissionsEgress"]) == ([], [])
    (kept,) = shell.client("logs").describe_log_groups(logGroupNamePrefix="/fresh/kept")["logGroups"]
    assert kept["retentionInDays"] == 7
    tags = shell.client("ec2").describe_tags(Filters=[{"Name": "key", "Values": ["team"]}])["Tags"]
    assert {"vpc", "subnet"} <= {tag["ResourceType"] for tag in tags}
    shell.client("s3").put_object(Bucket=outputs["BucketName"], Key="result", Body=b"1")
    shell.must("cdk", "destroy", "--force", "--app", str(tmp_path))
    assert outputs["BucketName"] not in str(shell.client("s3").list_buckets()["Buckets"])
    assert outputs["RoleName"] not in str(shell.client("iam").list_roles()["Roles"])
    assert "fresh" not in str(shell.client("cloudformation").describe_stacks()["Stacks"])
