"""A bake does what its roles allow, and ends if they do not allow a step."""

from __future__ import annotations

import pytest

from tests.yard.asking import EVERYTHING, make_role, policy
from tests.yard.services.imagebuilder.build.test_images import DISTRIBUTION, PARAMETER
from tests.yard.services.imagebuilder.components.test_steps import bash, document
from tests.yard.services.imagebuilder.conftest import PROFILE, Baked, Bakery

BUILDER, MACHINE = "bake", "machine"


def bake(bakery: Bakery, role: str = "", action: str = "") -> Baked:
    """Bake with two roles that may do everything, except one action of one of them."""
    execution = make_role(bakery.yard, BUILDER, {"Service": "imagebuilder.amazonaws.com"}, EVERYTHING)
    make_role(bakery.yard, MACHINE, {"Service": "ec2.amazonaws.com"}, EVERYTHING)
    iam = bakery.yard.client("iam")
    iam.add_role_to_instance_profile(InstanceProfileName=PROFILE, RoleName=MACHINE)
    if action:
        deny = policy({"Effect": "Deny", "Action": action, "Resource": "*"})
        iam.put_role_policy(RoleName=role, PolicyName="deny", PolicyDocument=deny)
    return bakery.bake(document(bash("true")), distributions=[DISTRIBUTION], executionRole=execution)


def test_roles_that_may_do_it_all_bake_an_image(bakery: Bakery) -> None:
    baked = bake(bakery)
    assert baked.status == "AVAILABLE", baked.reason
    assert bakery.yard.client("ssm").get_parameter(Name=PARAMETER)


@pytest.mark.parametrize(
    ("role", "action", "step"),
    [
        (BUILDER, "iam:PassRole", "LaunchBuildInstance"),
        (BUILDER, "ec2:RunInstances", "LaunchBuildInstance"),
        (BUILDER, "ssm:SendCommand", "ApplyBuildComponents"),
        (MACHINE, "imagebuilder:GetComponent", "ApplyBuildComponents"),
        (BUILDER, "ec2:CreateImage", "CreateOutputAMI"),
        (BUILDER, "ssm:PutParameter", "DistributeImage"),
    ],
)
def test_a_bake_fails_in_the_step_whose_action_its_role_lacks(
    bakery: Bakery, role: str, action: str, step: str
) -> None:
    baked = bake(bakery, role, action)
    assert (baked.status, baked.image["state"]["failureContext"]["failedStep"]) == ("FAILED", step)
    assert f"/{role}/" in baked.reason
    assert f"is not authorized to perform: {action} on resource: " in baked.reason
