"""Overrides from the context are typed and all checked at once; the CDK's own keys are ignored."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway.infra.declare.overrides import apply
from slipway.infra.declare.types import BatchCluster, Cluster, FileSystem, Market
from slipway.jobs.words.errors import InvalidConfig
from tests.infra.synthesis import CLUSTER

OTHER = replace(CLUSTER, name="trn1", instance_type="c6i.32xlarge", tags={"team": "nlp"})


def overridden(context: dict[str, object]) -> Cluster:
    return apply(context, [CLUSTER, OTHER])[0]


def said_of(context: dict[str, object]) -> str:
    with pytest.raises(InvalidConfig) as refusal:
        apply(context, [CLUSTER, OTHER])
    return refusal.value.message


@pytest.mark.parametrize(
    ("key", "value", "field", "expected"),
    [
        ("max_nodes", "4", "max_nodes", 4),
        ("max_nodes", 4, "max_nodes", 4),
        ("keep_data", "false", "keep_data", False),
        ("keep_data", False, "keep_data", False),
        ("file_system", "none", "file_system", FileSystem.NONE),
        ("efa_interfaces", "none", "efa_interfaces", None),
        ("efa_interfaces", None, "efa_interfaces", None),
        ("efa_interfaces", "2", "efa_interfaces", 2),
        ("account", "012345670123", "account", "012345670123"),
        ("peer_cidrs", "10.21.0.0/16, 10.22.0.0/16", "peer_cidrs", ("10.21.0.0/16", "10.22.0.0/16")),
        ("peer_cidrs", ["10.21.0.0/16"], "peer_cidrs", ("10.21.0.0/16",)),
        ("peer_cidrs", "", "peer_cidrs", ()),
        ("tags", '{"a": "b"}', "tags", {"a": "b"}),
        ("tags", {"a": "b"}, "tags", {"a": "b"}),
        ("tags.cost.center", "b", "tags", {"cost.center": "b"}),
    ],
)
def test_a_setting_is_overridden_with_its_own_type(
    key: str, value: object, field: str, expected: object
) -> None:
    result = getattr(overridden({f"dl1.{key}": value}), field)
    assert result == expected
    assert type(result) is type(expected)


def test_what_is_declared_and_overridden_is_judged_together() -> None:
    assert overridden({"dl1.region": "us-west-2", "dl1.zone": "us-west-2b"}).zone == "us-west-2b"
    assert apply({"dl1.alert_email": "me@example.org"}, [replace(CLUSTER, alert_email="")])
    assert apply({"trn1.tags.owner": "me"}, [CLUSTER, OTHER])[1].tags == {"team": "nlp", "owner": "me"}


@pytest.mark.parametrize(
    "key",
    [
        "@aws-cdk/core:validateAgainstDefaultRules",
        "aws:cdk:enable-path-metadata",
        "availability-zones:account=123456789012:region=us-east-1",
        "vpc-provider:account=123456789012:filter.vpc-id=vpc-1:region=us-east-1:returnAsymmetricSubnets=true",
        "ssm:account=123456789012:parameterName=/dl1.max_nodes:region=us-east-1",
        "hosted-zone:account=123456789012:domainName=dl1.example.com:region=us-east-1",
        "cli.telemetry",
        "tree",
    ],
)
def test_a_key_of_the_cdk_is_left_alone(key: str) -> None:
    assert overridden({key: "whatever"}) == CLUSTER


@pytest.mark.parametrize(
    ("context", "said"),
    [
        ({"dl2.max_nodes": "4"}, "names the cluster 'dl2', which is not declared; did you mean dl1?"),
        ({"p4.max_nodes": "4"}, "allowed are dl1, trn1"),
        ({"max_nodes": "4"}, "names no cluster; write dl1.max_nodes or trn1.max_nodes"),
        ({"max_node": "4"}, "write dl1.max_nodes"),
        ({"dl1": {"max_nodes": 4}}, "names no setting; write dl1.max_nodes"),
        ({"dl1.qqq": "4"}, "is not a setting; allowed are instance_type, max_nodes"),
        ({"dl1.name": "big"}, "changed in clusters.py only"),
        ({"dl1.max_nodes.x": "4"}, "goes deeper than the setting max_nodes"),
        ({"dl1.max_nodes": "٤"}, "not a whole number"),
        ({"dl1.max_nodes": "4 "}, "not a whole number"),
        ({"dl1.max_nodes": ""}, "not a whole number"),
        ({"dl1.max_nodes": "none"}, "not a whole number"),
        ({"dl1.max_nodes": "9" * 5000}, "not a whole number"),
        ({"dl1.max_nodes": True}, "is true, not a whole number"),
        ({"dl1.max_nodes": 4.0}, "is 4.0, not a whole number"),
        ({"dl1.max_nodes": "-1"}, "is -1, not a whole number from 1 to 1000"),
        ({"dl1.keep_data": "yes"}, "allowed are true and false"),
        ({"dl1.keep_data": "False"}, "allowed are true and false"),
        ({"dl1.keep_data": 1}, "allowed are true and false"),
        ({"dl1.market": "on-demnd"}, "allowed are on-demand, open-reservation"),
        ({"dl1.market": "on-demnd"}, "did you mean on-demand?"),
        ({"dl1.peer_cidrs": [1]}, "is 1, not text"),
        ({"dl1.tags": '{"a": "b", "a": "c"}'}, "has 'a' twice"),
        ({"dl1.tags": "a=b"}, "not an object in JSON"),
        ({"dl1.tags": '{"a": ' + "9" * 5000 + "}"}, "not an object in JSON"),
        ({"dl1.tags": 10**5000}, "is a whole number of 16610 bits, not an object in JSON"),
        ({"dl1.max_nodes": 10**5000}, "is a whole number of 16610 bits, not a whole number from 1 to 1000"),
        ({"dl1.keep_data": 10**5000}, "allowed are true and false"),
        ({"dl1.market": 10**5000}, "allowed are on-demand, open-reservation"),
        ({"dl1.tags": {"a": 1}}, "is 1, not text"),
    ],
)
def test_a_wrong_override_is_refused_with_what_is_allowed(context: dict[str, object], said: str) -> None:
    assert said in said_of(context)


def test_all_mistakes_of_clusters_and_context_are_told_at_once() -> None:
    context: dict[str, object] = {"dl1.max_nodes": "022", "dl1.zone": "us-west-2a", "dl2.max_nodes": "4"}
    with pytest.raises(InvalidConfig) as refusal:
        apply(context, [CLUSTER, replace(OTHER, job_attempts=0)])
    where = [problem.where for problem in refusal.value.problems]
    assert where == [
        "dl1.max_nodes of the context",
        "dl2.max_nodes of the context",
        "dl1.zone of the context",
        "trn1.job_attempts",
    ]


def test_a_secret_in_the_context_is_never_printed() -> None:
    secret = "AKIA" + "A" * 16
    for key in ("dl1.max_nodes", "dl1.tags", "dl1.tags.note", "dl1.alert_email", "dl1.market"):
        assert secret not in said_of({key: secret})


keys = (
    st.sampled_from([f"dl1.{field.name}" for field in fields(BatchCluster)] + ["dl1.tags.x", "dl1.x"])
    | st.text()
)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)


@given(context=st.dictionaries(keys, json_values, max_size=4))
def test_any_context_gives_sound_clusters_or_a_list_of_problems(context: dict[str, Any]) -> None:
    try:
        clusters = apply(context, [CLUSTER])
    except InvalidConfig as refusal:
        assert all(line.isprintable() for line in map(str, refusal.problems))  # noqa: PT017
    else:
        assert apply({}, clusters) == clusters


@given(
    nodes=st.integers(1, 1000),
    market=st.sampled_from([Market.ON_DEMAND, Market.OPEN_RESERVATION]),
    keep=st.booleans(),
)
def test_what_the_context_writes_is_what_the_cluster_has(nodes: int, market: Market, keep: bool) -> None:
    context = {"dl1.max_nodes": str(nodes), "dl1.market": str(market), "dl1.keep_data": str(keep).lower()}
    changed = replace(CLUSTER, max_nodes=nodes, market=market, keep_data=keep)
    assert apply(dict(context), [CLUSTER, OTHER]) == (changed, OTHER)
