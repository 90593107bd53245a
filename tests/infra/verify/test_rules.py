"""Each of our own rules finds what it is for, and nothing in a good template."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import pytest

from slipway.infra.declare.types import Cluster, Egress, FileSystem, Market
from slipway.infra.verify.rules import RULES
from slipway.infra.verify.rules.template import as_list
from slipway.yard.permissions.calls.arns import resource_types
from tests.infra.stacks.test_sagemaker import SMALL
from tests.infra.stacks.test_slurm import LARGE
from tests.infra.synthesis import (
    CLUSTER,
    MPI_CLUSTER,
    SAGEMAKER_CLUSTER,
    SLURM_CLUSTER,
    of_type,
    templates_of,
)
from tests.infra.verify.rule_templates import machines, surroundings
from tests.infra.verify.rule_templates.names import GONE, BadRow, Path

# A template that passes every rule, and for each rule a change that fails it.
GOOD: Mapping[str, Any] = {"Resources": {**surroundings.GOOD, **machines.GOOD}}
BAD: tuple[BadRow, ...] = (*surroundings.BAD, *machines.BAD)


def changed(resource_type: str, path: Path, value: object) -> dict[str, Any]:
    """Return GOOD with one thing wrong."""
    template: dict[str, Any] = copy.deepcopy(dict(GOOD))
    (resource,) = [each for each in template["Resources"].values() if each["Type"] == resource_type]
    if path == ("<type>",):
        resource["Type"] = value
        return template
    if path == ("<UpdatePolicy>",):
        resource["UpdatePolicy"] = value
        return template
    place: Any = resource["Properties"]
    for step in path[:-1]:
        place = place[step]
    if value is GONE:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return template


CAPACITY_BLOCK = {"market": Market.CAPACITY_BLOCK, "reservation_id": "cr-0123456789abcdef0"}
VARIANTS: tuple[dict[str, object], ...] = (
    {},
    {"egress": Egress.NAT},
    {"file_system": FileSystem.NONE},
    {"file_system": FileSystem.FSX_LUSTRE},
    {"market": Market.OPEN_RESERVATION},
    {**CAPACITY_BLOCK, "instance_type": "p4d.24xlarge"},
    {"keep_data": False},
    {"efa_interfaces": 0},
)


MPI_VARIANTS: tuple[dict[str, object], ...] = (
    {},
    {"instance_type": "c6i.16xlarge"},
    {"instance_type": "c6i.metal"},
    {"instance_type": "c6in.32xlarge"},
    {"market": Market.SPOT},
    {"market": Market.TARGETED_RESERVATION, "reservation_id": "cr-0123456789abcdef0"},
    {"egress": Egress.NAT},
    {"file_system": FileSystem.NONE},
    {"ssh_cidrs": ("10.0.0.0/8",)},
    {"idle_minutes": None},
    {"start_at": "0 8 * * MON-FRI", "stop_at": "0 20 * * *"},
    {"keep_data": False},
)


# The last two are as in tests/infra/stacks, so that a session synthesizes each once.
EVERY_SORT = [
    *((CLUSTER, changes) for changes in VARIANTS),
    *((MPI_CLUSTER, changes) for changes in MPI_VARIANTS),
    *((SLURM_CLUSTER, changes) for changes in ({}, LARGE, CAPACITY_BLOCK)),
    *((SAGEMAKER_CLUSTER, changes) for changes in ({}, SMALL)),
]


@pytest.mark.parametrize("name", RULES)
def test_a_rule_passes_a_template_where_all_is_well(name: str) -> None:
    assert list(RULES[name](GOOD)) == []


@pytest.mark.parametrize("name", RULES)
def test_a_rule_passes_an_empty_template(name: str) -> None:
    assert list(RULES[name]({})) == []


@pytest.mark.parametrize(
    ("name", "resource_type", "path", "value"), BAD, ids=[f"{each[0]}-{each[2][-1]}" for each in BAD]
)
def test_a_rule_finds_what_it_is_for_and_says_where_and_what(
    name: str, resource_type: str, path: Path, value: object
) -> None:
    template = changed(resource_type, path, value)
    findings = list(RULES[name](template))
    assert findings
    for finding in findings:
        assert finding.where in template["Resources"]
        assert len(finding.message) > 15


def test_every_rule_has_a_template_that_it_does_not_pass() -> None:
    assert {each[0] for each in BAD} == set(RULES)


def test_a_secret_is_never_printed() -> None:
    secret = "AKIA" + "A" * 16
    container = ("NodeProperties", "NodeRangeProperties", 0, "Container", "Environment", 0, "Value")
    template = changed("AWS::Batch::JobDefinition", container, secret)
    assert secret not in str(list(RULES["batch-no-secrets"](template)))


@pytest.mark.parametrize(
    ("cluster", "changes"), EVERY_SORT, ids=[f"{each.kind}-{changes}" for each, changes in EVERY_SORT]
)
def test_every_sort_of_cluster_passes_every_rule(cluster: Cluster, changes: dict[str, object]) -> None:
    for template in templates_of(cluster, **changes).all():
        for name, rule in RULES.items():
            assert list(rule(template)) == [], name


@pytest.mark.parametrize(
    ("cluster", "changes"), EVERY_SORT, ids=[f"{each.kind}-{changes}" for each, changes in EVERY_SORT]
)
def test_a_permission_names_a_resource_only_where_aws_takes_one(
    cluster: Cluster, changes: dict[str, object]
) -> None:
    """A statement that names a resource does not allow an action that takes none."""
    for template in templates_of(cluster, **changes).all():
        for policy in of_type(template, "AWS::IAM::ManagedPolicy").values():
            for statement in policy["PolicyDocument"]["Statement"]:
                if statement["Resource"] != "*":
                    assert [each for each in as_list(statement["Action"]) if not resource_types(each)] == []


@pytest.mark.parametrize(
    "registry",
    [
        [{"Fn::GetAtt": ["Image", "RepositoryUri"]}, ":0123"],
        [{"Ref": "AWS::AccountId"}, ".dkr.ecr.us-east-1.amazonaws.com/own:0123"],
    ],
)
def test_an_image_of_this_template_or_of_the_same_account_is_ours(registry: list[object]) -> None:
    container = ("NodeProperties", "NodeRangeProperties", 0, "Container", "Image")
    template = changed("AWS::Batch::JobDefinition", container, {"Fn::Join": ["", registry]})
    assert list(RULES["batch-image-is-ours"](template)) == []
