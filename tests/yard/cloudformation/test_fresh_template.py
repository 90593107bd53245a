"""What `cdk init app --language typescript` deploys once a newcomer has written one VPC into it.

init_typescript.json is that app's own template, with every feature flag that `cdk init` writes,
as aws-cdk-lib 2.276.0 made it; the paths of its constructs are left out.
"""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import pytest

from slipway.yard.endpoint import ACCOUNT
from tests.yard.asking import make_role
from tests.yard.cloudformation.stacks import Stacks
from tests.yard.conftest import REGION, RunningYard

TEMPLATE = Path(__file__).with_name("resources") / "init_typescript.json"
ASSETS = f"cdk-hnb659fds-assets-{ACCOUNT}-{REGION}"
S3_ALONE = "arn:aws:iam::aws:policy/AmazonS3FullAccess"
EVERYTHING = "arn:aws:iam::aws:policy/AdministratorAccess"


@pytest.fixture
def stacks(yard: RunningYard) -> Stacks:
    """A yard with as much of the CDK's bootstrap as the template asks for."""
    yard.client("s3").create_bucket(Bucket=ASSETS)
    yard.client("ssm").put_parameter(Name="/cdk-bootstrap/hnb659fds/version", Value="30", Type="String")
    return Stacks(yard)


def exec_role(yard: RunningYard, managed: str) -> str:
    """Make the role of --cloudformation-execution-policies MANAGED, with leave to read the version."""
    read = {"Effect": "Allow", "Action": "ssm:GetParameters", "Resource": "*"}
    role = make_role(yard, "exec", {"Service": "cloudformation.amazonaws.com"}, read)
    yard.client("iam").attach_role_policy(RoleName="exec", PolicyArn=managed)
    return role


def test_a_fresh_typescript_app_with_one_vpc_comes_and_goes(stacks: Stacks) -> None:
    role = exec_role(stacks.yard, EVERYTHING)
    body = TEMPLATE.read_text(encoding="utf-8")
    asset = body.partition('"S3Key": "')[2].partition('"')[0]
    code = io.BytesIO()
    with zipfile.ZipFile(code, "w") as archive:
        archive.writestr("__entrypoint__.js", "exports.handler = async () => {};")
    stacks.yard.client("s3").put_object(Bucket=ASSETS, Key=asset, Body=code.getvalue())
    made = stacks.create("fresh", body, RoleARN=role)
    (vpc,) = [identifier for name, identifier in made.items() if name.startswith("Vpc8")]
    ec2 = stacks.yard.client("ec2")
    (group,) = ec2.describe_security_groups(
        Filters=[{"Name": "vpc-id", "Values": [vpc]}, {"Name": "group-name", "Values": ["default"]}]
    )["SecurityGroups"]
    assert (group["IpPermissions"], group["IpPermissionsEgress"]) == ([], [])
    stacks.delete("fresh")
    assert vpc not in {one["VpcId"] for one in ec2.describe_vpcs()["Vpcs"]}


def test_narrow_execution_policies_stop_it_at_the_resource_that_they_leave_out(stacks: Stacks) -> None:
    role = exec_role(stacks.yard, S3_ALONE)
    with pytest.raises(AssertionError, match="is not stack_create_complete"):
        stacks.create("fresh", TEMPLATE.read_text(encoding="utf-8"), RoleARN=role)
    first = stacks.reasons("fresh")[0]
    assert "HandlerErrorCode: AccessDenied" in first
    assert "because no identity-based policy allows the" in first
