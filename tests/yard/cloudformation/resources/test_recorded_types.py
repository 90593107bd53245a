"""Types of which the yard keeps the record: known to CloudFormation, with all that a stack asks for."""

from __future__ import annotations

import pytest

from slipway.yard.cloudformation.resources import recorded_types, registry
from slipway.yard.cloudformation.resources.provider import Fidelity
from slipway.yard.cloudformation.resources.recorded import records
from slipway.yard.cloudformation.template import schemas
from tests.yard.cloudformation.resources.world import new_context

KINDS = sorted(recorded_types.names())


def test_no_type_is_both_recorded_and_made() -> None:
    assert not recorded_types.names() & set(registry.TYPES)


@pytest.mark.parametrize("kind", KINDS)
def test_a_recorded_type_has_an_id_and_every_attribute_until_it_goes(kind: str) -> None:
    assert schemas.is_known(kind)
    maker, context = registry.provider(kind), new_context("One")
    assert maker.fidelity is Fidelity.RECORDED
    made = maker.create(context, {})
    wanted = {path.replace("/", ".") for path in schemas.read_only(kind) if "*" not in path}
    assert made.physical_id
    assert set(made.attributes) == wanted
    assert maker.update(context, made, {}, {"Tags": []}).physical_id == made.physical_id
    assert maker.read(context, made, {}) == {"Tags": []}
    maker.delete(context, made, {})
    assert made.physical_id not in {record.physical_id for record in records(kind)}


def test_a_name_that_the_template_gives_is_the_id() -> None:
    made = registry.provider("AWS::EKS::Cluster").create(new_context("Cluster"), {"Name": "train"})
    assert made.physical_id == "train"
    assert made.attributes["Arn"].endswith(":cluster/train")


def test_the_arn_of_a_recorded_type_is_one_that_other_types_take() -> None:
    kind = "AWS::SageMaker::StudioLifecycleConfig"
    arn = registry.provider(kind).create(new_context("Config"), {}).attributes["StudioLifecycleConfigArn"]
    settings = {"CodeEditorAppSettings": {"LifecycleConfigArns": [arn]}}
    assert not [
        problem
        for problem in schemas.check("AWS::SageMaker::Domain", {"DefaultUserSettings": settings})
        if "LifecycleConfigArns" in problem
    ]


def test_a_plural_lists_what_the_template_names() -> None:
    arn = "arn:aws:pcs:us-east-1:123456789012:cluster/pcs_1"
    kind = "AWS::Logs::DeliverySource"
    made = registry.provider(kind).create(new_context("Source"), {"Name": "logs", "ResourceArn": arn})
    assert made.attributes["ResourceArns"] == [arn]


def test_the_id_of_a_user_pool_is_one_that_its_domain_takes() -> None:
    pool = registry.provider("AWS::Cognito::UserPool").create(new_context("Pool"), {})
    domain = {"Domain": "train", "UserPoolId": pool.physical_id}
    assert schemas.check("AWS::Cognito::UserPoolDomain", domain) == ()
