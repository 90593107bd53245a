"""A stack's tags reach its resources, and a change of them alone is a change."""

from __future__ import annotations

import pytest

from slipway.yard.cloudformation.engine.stack import with_stack_tags
from slipway.yard.cloudformation.resources import registry
from slipway.yard.cloudformation.resources.api import ApiResource
from slipway.yard.cloudformation.template import schemas
from tests.yard.cloudformation.conftest import Cfn, text
from tests.yard.cloudformation.templates import topic

ML = [{"Key": "team", "Value": "ml"}]
OWN = [{"Key": "team", "Value": "own"}]


def test_every_resource_that_carries_tags_gets_those_of_its_stack(cfn: Cfn) -> None:
    cfn.create("s", {"A": topic("one")}, Tags=ML)
    assert cfn.cloud.of("A")["Tags"] == ML


def test_a_tag_of_the_template_wins_over_the_same_of_the_stack(cfn: Cfn) -> None:
    tagged = topic("one")
    tagged["Properties"]["Tags"] = OWN
    cfn.create("s", {"A": tagged}, Tags=ML)
    assert cfn.cloud.of("A")["Tags"] == OWN


def test_a_change_set_of_tags_alone_says_and_makes_its_changes(cfn: Cfn) -> None:
    body = text({"A": topic("one")})
    cfn("CreateStack", StackName="s", TemplateBody=body)
    cfn.settled("s")
    cfn("CreateChangeSet", StackName="s", ChangeSetName="tags", TemplateBody=body, Tags=ML)
    shown = cfn("DescribeChangeSet", StackName="s", ChangeSetName="tags")
    (change,) = shown["Changes"]
    assert (change["ResourceChange"]["LogicalResourceId"], change["ResourceChange"]["Replacement"]) == (
        "A",
        "False",
    )
    assert change["ResourceChange"]["Scope"] == ["Tags"]
    cfn("ExecuteChangeSet", StackName="s", ChangeSetName="tags")
    assert cfn.settled("s") == "UPDATE_COMPLETE"
    assert cfn.cloud.of("A")["Tags"] == ML


def test_tags_that_a_failed_update_set_are_taken_back(cfn: Cfn) -> None:
    cfn.create("s", {"A": topic("one")})
    cfn.cloud.fail("create", "B")
    cfn.update("s", {"A": topic("one"), "B": topic("two", DependsOn="A")}, Tags=ML)
    assert "Tags" not in cfn.cloud.of("A")


@pytest.mark.parametrize(
    ("kind", "name", "tags"),
    [
        ("AWS::SSM::Parameter", "Tags", {"team": "ml"}),
        ("AWS::EFS::FileSystem", "FileSystemTags", ML),
        ("AWS::AutoScaling::AutoScalingGroup", "Tags", [{**ML[0], "PropagateAtLaunch": True}]),
        ("AWS::FSx::FileSystem", "Tags", ML),
    ],
)
def test_tags_stand_where_and_as_the_type_writes_them(kind: str, name: str, tags: object) -> None:
    assert with_stack_tags(kind, {}, {"team": "ml"}) == {name: tags}


def test_a_type_that_carries_no_tags_gets_none() -> None:
    assert with_stack_tags("AWS::EC2::Route", {}, {"team": "ml"}) == {}


def test_every_type_that_follows_its_stacks_tags_takes_others_in_place() -> None:
    fixed = []
    for kind in registry.TYPES:
        holder, maker = schemas.tag_property(kind), registry.provider(kind)
        if holder is None or not holder.is_updatable or not isinstance(maker, ApiResource):
            continue
        if not any(holder.name in setting.properties for setting in maker.settings):
            fixed.append(kind)
    assert not fixed
