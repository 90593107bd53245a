"""What Image Builder may do in this account, with which key, and how long a bake may take."""

from __future__ import annotations

import yaml

from tests.infra.stacks.test_bakery import EVERY_IMAGE, IMAGE_BUILDER, bakery, statements
from tests.infra.synthesis import as_text, of_type, only


@EVERY_IMAGE
def test_image_builder_takes_its_roles_for_this_account_alone(name: str) -> None:
    for resource in of_type(bakery(name), "AWS::IAM::Role").values():
        (trust,) = resource["AssumeRolePolicyDocument"]["Statement"]
        service = trust["Principal"]["Service"]
        if service == "imagebuilder.amazonaws.com":
            assert trust["Condition"] == {"StringEquals": {"aws:SourceAccount": {"Ref": "AWS::AccountId"}}}
        else:
            assert service == "ec2.amazonaws.com", "EC2 names no account"


@EVERY_IMAGE
def test_image_builder_may_register_what_it_makes_and_tag_it_as_it_is_made(name: str) -> None:
    may = statements(bakery(name), "Execution")
    assert "ec2:RegisterImage" in may["MakeImages"]["Action"]
    assert may["TagAsItMakes"]["Condition"] == {
        "StringEquals": {"ec2:CreateAction": ["CreateImage", "RunInstances"]}
    }


@EVERY_IMAGE
def test_disks_use_the_key_of_aws_whatever_the_default_of_the_account_is(name: str) -> None:
    (disk,) = only(bakery(name), f"{IMAGE_BUILDER}::ImageRecipe")["BlockDeviceMappings"]
    assert as_text(disk["Ebs"]["KmsKeyId"]).endswith(":alias/aws/ebs")


@EVERY_IMAGE
def test_every_step_of_a_bake_ends_and_a_failed_one_ends_its_machine(name: str) -> None:
    """A step without a limit of its own has Image Builder's, of two hours; -1 would be none."""
    for component in of_type(bakery(name), f"{IMAGE_BUILDER}::Component").values():
        for phase in yaml.safe_load(component["Data"])["phases"]:
            limits = [int(step.get("timeoutSeconds", 7200)) for step in phase["steps"]]
            assert all(0 < limit <= 7200 for limit in limits)
    machine = only(bakery(name), f"{IMAGE_BUILDER}::InfrastructureConfiguration")
    assert machine["TerminateInstanceOnFailure"] is True
