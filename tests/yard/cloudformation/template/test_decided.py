"""What functions of a template decide before anything is made: deletion policies, defaults of mappings."""

from __future__ import annotations

import pytest

from tests.yard.cloudformation.template.test_template import TOPIC, draw, refusal, value


@pytest.mark.parametrize(("keep", "policy"), [("yes", "Retain"), ("no", "Delete")])
def test_a_parameter_may_decide_what_becomes_of_a_resource(keep: str, policy: str) -> None:
    """cfn-lint's authors at AWS: it works without the language extensions as well."""
    chosen = {"Fn::If": ["Keeps", "Retain", "Delete"]}
    body = {
        "Parameters": {"Keep": {"Type": "String"}, "Policy": {"Type": "String", "Default": "Snapshot"}},
        "Conditions": {"Keeps": {"Fn::Equals": [{"Ref": "Keep"}, "yes"]}},
        "Resources": {"T": {**TOPIC, "DeletionPolicy": chosen, "UpdateReplacePolicy": {"Ref": "Policy"}}},
    }
    declared = draw(body, Keep=keep).resources["T"].declared
    assert (declared.deletion_policy, declared.update_replace_policy) == (policy, "Snapshot")
    assert "DeletionPolicy of resource T is 'Keep'" in refusal(
        {"Resources": {"T": {**TOPIC, "DeletionPolicy": {"Fn::Sub": "Keep"}}}}
    )
    assert "Unresolved resource dependencies" in refusal(
        {"Resources": {"T": {**TOPIC, "DeletionPolicy": {"Ref": "Nobody"}}}}
    )


def test_a_mapping_falls_back_on_its_default() -> None:
    given = {"Fn::FindInMap": ["Sizes", {"Ref": "AWS::Region"}, "big", {"DefaultValue": "c7i"}]}
    assert value(given, Mappings={"Sizes": {"us-east-1": {"big": "c6i"}}}) == "c7i"
    assert value(given, Mappings={"Sizes": {"eu-west-1": {"big": "c6i"}}}) == "c6i"
