"""Policies are evaluated as AWS documents: one decision for each row, and its condition operators.

IAM user guide, "Policy evaluation logic" and what it links to.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from slipway.yard.permissions.conditions import hold
from slipway.yard.permissions.evaluation import Access, AppliedPolicies, Judgement, PolicyKind, judge
from slipway.yard.permissions.policies import Caller, PolicyDocument, decode

ACCOUNT = "123456789012"
ROLE = f"arn:aws:iam::{ACCOUNT}:role/nodes"
SESSION = f"arn:aws:sts::{ACCOUNT}:assumed-role/nodes/i-1"
OBJECT = "arn:aws:s3:::data/corpus/part-1"
KEY = f"arn:aws:kms:us-east-1:{ACCOUNT}:key/k"
NODE = Caller(account=ACCOUNT, arn=SESSION, role_arn=ROLE, role_id="AROA1:i-1")
EVENTS = Caller(account=ACCOUNT, service="events.amazonaws.com")

Stated = Mapping[str, Any]


def policy(*statements: Stated, name: str = "p", version: str = "2012-10-17") -> PolicyDocument:
    return decode(name, {"Version": version, "Statement": list(statements)})


def allow(action: str = "s3:GetObject", resource: str = "arn:aws:s3:::data/*", **more: Any) -> Stated:
    return {"Effect": "Allow", "Action": action, "Resource": resource, **more}


def deny(action: str = "s3:GetObject", resource: str = "*", **more: Any) -> Stated:
    return {"Effect": "Deny", "Action": action, "Resource": resource, **more}


def decide(caller: Caller = NODE, action: str = "s3:GetObject", on: str = OBJECT, **applied: Any) -> str:
    judged: Judgement = judge(Access(caller=caller, action=action, resource=on), AppliedPolicies(**applied))
    if judged.is_allowed:
        return "allowed"
    assert judged.kind
    return f"{'denied by' if judged.denied_by else 'not allowed by'} {judged.kind.value}"


NO_IDENTITY = f"not allowed by {PolicyKind.IDENTITY.value}"
NO_RESOURCE = f"not allowed by {PolicyKind.RESOURCE.value}"
WHO = {"role": {"AWS": ROLE}, "session": {"AWS": SESSION}, "root": {"AWS": f"arn:aws:iam::{ACCOUNT}:root"}}


@pytest.mark.parametrize(
    ("applied", "expected"),
    [
        pytest.param({}, NO_IDENTITY, id="what nobody allows is refused"),
        pytest.param({"identity": (policy(allow()),)}, "allowed", id="an identity policy is enough"),
        pytest.param(
            {"identity": (policy(allow()), policy(deny()))},
            "denied by identity-based policy",
            id="an explicit deny beats every allow",
        ),
        pytest.param(
            {"identity": (policy(allow(action="S3:getobject")),)}, "allowed", id="actions ignore case"
        ),
        pytest.param(
            {"identity": (policy(allow(resource="arn:aws:s3:::DATA/*")),)},
            NO_IDENTITY,
            id="resources do not ignore case",
        ),
        pytest.param(
            {"resource": policy(allow(Principal=WHO["role"]))},
            "allowed",
            id="in one account the resource's policy is enough",
        ),
        pytest.param(
            {"resource": policy(allow(Principal=WHO["root"]))},
            NO_IDENTITY,
            id="a resource that trusts the account leaves it to identity policies",
        ),
        pytest.param({"resource": policy(allow(Principal="*"))}, "allowed", id="a public resource is open"),
        pytest.param(
            {"identity": (policy(allow()),), "resource": policy(deny(Principal="*"))},
            "denied by resource-based policy",
            id="the resource's deny beats the identity's allow",
        ),
        pytest.param(
            {
                "identity": (policy(allow()),),
                "resource": policy({**deny(), "NotPrincipal": {"AWS": [ROLE, SESSION]}}),
            },
            "allowed",
            id="a deny to all but the role spares the role",
        ),
        pytest.param(
            {"identity": (policy(allow()),), "boundary": policy(allow(action="s3:PutObject"))},
            "not allowed by permissions boundary",
            id="a boundary limits what identity policies give",
        ),
        pytest.param({"boundary": policy(allow())}, NO_IDENTITY, id="a boundary alone gives nothing"),
        pytest.param(
            {"resource": policy(allow(Principal=WHO["role"])), "boundary": policy(allow("s3:PutObject"))},
            "not allowed by permissions boundary",
            id="a boundary limits what a resource gives the role",
        ),
        pytest.param(
            {"resource": policy(allow(Principal=WHO["session"])), "boundary": policy(allow("s3:PutObject"))},
            "allowed",
            id="a boundary does not limit what a resource gives the session itself",
        ),
        pytest.param(
            {"identity": (policy(allow()),), "endpoint": policy(allow("s3:PutObject", "*", Principal="*"))},
            "not allowed by VPC endpoint policy",
            id="an endpoint lets pass only what its policy allows",
        ),
        pytest.param(
            {"endpoint": policy(allow("*", "*", Principal="*"))}, NO_IDENTITY, id="an endpoint gives nothing"
        ),
        pytest.param(
            {"identity": (policy({"Effect": "Allow", "NotAction": "iam:*", "Resource": "*"}),)},
            "allowed",
            id="NotAction allows everything else",
        ),
        pytest.param(
            {"identity": (policy({"Effect": "Deny", "Action": "*", "NotResource": OBJECT}), policy(allow()))},
            "allowed",
            id="NotResource spares what it names",
        ),
    ],
)
def test_a_role_is_judged_as_on_aws(applied: Mapping[str, Any], expected: str) -> None:
    assert decide(**applied) == expected


@pytest.mark.parametrize(
    ("applied", "expected"),
    [
        pytest.param(
            {"identity": (policy(allow("kms:*", "*")),)}, NO_RESOURCE, id="identity alone never opens"
        ),
        pytest.param(
            {
                "identity": (policy(allow("kms:Decrypt", KEY)),),
                "resource": policy(allow("kms:*", "*", Principal=WHO["root"])),
            },
            "allowed",
            id="a key that trusts the account leaves it to identity policies",
        ),
        pytest.param(
            {"resource": policy(allow("kms:*", "*", Principal=WHO["root"]))},
            NO_IDENTITY,
            id="trusting the account lets nobody in by itself",
        ),
        pytest.param(
            {"resource": policy(allow("kms:Decrypt", "*", Principal=WHO["role"]))},
            "allowed",
            id="a key policy that names the role is enough",
        ),
        pytest.param(
            {
                "identity": (policy(allow("kms:Decrypt", KEY)),),
                "resource": policy(allow("kms:Encrypt", "*", Principal=WHO["root"])),
            },
            NO_RESOURCE,
            id="a key leaves to the account only what it says",
        ),
    ],
)
def test_a_keys_own_policy_always_has_to_agree(applied: Mapping[str, Any], expected: str) -> None:
    assert decide(action="kms:Decrypt", on=KEY, needs_resource=True, **applied) == expected


@pytest.mark.parametrize(
    ("resource", "expected"),
    [
        pytest.param(None, NO_RESOURCE, id="no policy, no delivery"),
        pytest.param(allow(Principal={"Service": "events.amazonaws.com"}), "allowed", id="named"),
        pytest.param(allow(Principal={"Service": "s3.amazonaws.com"}), NO_RESOURCE, id="another service"),
        pytest.param(allow(Principal=WHO["root"]), NO_RESOURCE, id="the account is no service"),
        pytest.param(allow(Principal="*"), "allowed", id="everybody"),
    ],
)
def test_a_service_needs_the_resources_own_policy(resource: Stated | None, expected: str) -> None:
    own = policy(resource) if resource else None
    assert decide(caller=EVENTS, resource=own, identity=(policy(allow("*", "*")),)) == expected


def test_a_variable_is_replaced_by_the_requests_value_and_never_by_a_pattern() -> None:
    own = policy(allow(resource="arn:aws:s3:::data/${aws:PrincipalTag/team}/*"))
    for team, expected in (("corpus", True), ("*", False)):
        access = Access(
            caller=NODE, action="s3:GetObject", resource=OBJECT, keys={"aws:principaltag/team": (team,)}
        )
        assert judge(access, AppliedPolicies(identity=(own,))).is_allowed is expected


def test_a_policy_of_2008_has_no_variables() -> None:
    old = policy(allow(resource="arn:aws:s3:::data/${aws:PrincipalTag/team}/*"), version="2008-10-17")
    access = Access(
        caller=NODE, action="s3:GetObject", resource=OBJECT, keys={"aws:principaltag/team": ("corpus",)}
    )
    assert not judge(access, AppliedPolicies(identity=(old,))).is_allowed


def test_a_malformed_policy_is_refused_when_it_is_read() -> None:
    with pytest.raises(ValueError, match="'StringEqual' is no condition operator"):
        policy(allow(Condition={"StringEqual": {"aws:SourceAccount": ACCOUNT}}))


# Condition operators as IAM documents them: "Condition operators", "Multivalued context keys".
LOGS = "arn:aws:logs:us-east-1:123456789012:log-group:/aws/batch/job"
REQUEST = {
    "aws:sourceaccount": ("123456789012",),
    "aws:securetransport": ("true",),
    "aws:tagkeys": ("team", "cost"),
    "kms:encryptioncontext:aws:logs:arn": (LOGS,),
    "s3:prefix": ("corpus/",),
    "ec2:vcpus": ("96",),
    "aws:sourceip": ("10.30.0.4",),
    "aws:currenttime": ("2026-11-22T10:00:00Z",),
}


@pytest.mark.parametrize(
    ("operator", "key", "wanted", "expected"),
    [
        ("StringEquals", "aws:SourceAccount", ["1", "123456789012"], True),
        ("StringEquals", "aws:SourceAccount", ["1234567890*"], False),
        ("StringLike", "aws:SourceAccount", ["1234567890*"], True),
        ("StringNotEquals", "aws:SourceAccount", ["123456789012"], False),
        ("StringNotLike", "aws:SourceAccount", ["9*", "1*"], False),
        ("StringEqualsIgnoreCase", "s3:prefix", ["CORPUS/"], True),
        ("StringEquals", "s3:Prefix", ["corpus/"], True),  # keys ignore case
        (
            "ArnLike",
            "kms:EncryptionContext:aws:logs:arn",
            ["arn:aws:logs:*:123456789012:log-group:/aws/*"],
            True,
        ),
        ("ArnLike", "kms:EncryptionContext:aws:logs:arn", ["arn:aws:logs:*"], False),  # part by part
        ("ArnEquals", "kms:EncryptionContext:aws:logs:arn", [LOGS], True),
        ("ArnNotLike", "kms:EncryptionContext:aws:logs:arn", ["arn:aws:logs:*:*:log-group:/aws/*"], False),
        ("Bool", "aws:SecureTransport", ["false"], False),
        ("Bool", "aws:SecureTransport", ["true"], True),
        ("NumericLessThan", "ec2:Vcpus", ["128"], True),
        ("NumericGreaterThanEquals", "ec2:Vcpus", ["128"], False),
        ("IpAddress", "aws:SourceIp", ["10.30.0.0/16"], True),
        ("NotIpAddress", "aws:SourceIp", ["10.30.0.0/16"], False),
        ("DateLessThan", "aws:CurrentTime", ["2027-01-01T00:00:00Z"], True),
        ("DateGreaterThan", "aws:CurrentTime", ["1900000000"], False),
        # With an absent key, operators that assert fail, and negated ones succeed.
        ("StringEquals", "aws:PrincipalOrgID", ["o-1"], False),
        ("StringNotEquals", "aws:PrincipalOrgID", ["o-1"], True),
        ("StringEqualsIfExists", "aws:PrincipalOrgID", ["o-1"], True),
        ("StringEqualsIfExists", "aws:SourceAccount", ["1"], False),
        ("Bool", "aws:ViaAWSService", ["false"], False),
        ("Null", "aws:PrincipalOrgID", ["true"], True),
        ("Null", "aws:SourceAccount", ["true"], False),
        ("Null", "aws:SourceAccount", ["false"], True),
        # Several values: every one, or one at least.
        ("ForAllValues:StringEquals", "aws:TagKeys", ["team", "cost", "owner"], True),
        ("ForAllValues:StringEquals", "aws:TagKeys", ["team"], False),
        ("ForAllValues:StringEquals", "aws:PrincipalOrgPaths", ["o-1"], True),  # absent: the documented trap
        ("ForAnyValue:StringEquals", "aws:TagKeys", ["team"], True),
        ("ForAnyValue:StringEquals", "aws:PrincipalOrgPaths", ["o-1"], False),
        ("ForAnyValue:StringNotEquals", "aws:TagKeys", ["team"], True),
        ("ForAllValues:StringNotEquals", "aws:TagKeys", ["team"], False),
    ],
)
def test_an_operator_decides_as_iam_documents(
    operator: str, key: str, wanted: list[str], expected: bool
) -> None:
    assert hold({operator: {key: wanted}}, REQUEST) is expected


def test_all_keys_and_all_operators_have_to_hold() -> None:
    both = {"aws:SourceAccount": ["123456789012"], "s3:prefix": ["other/"]}
    assert not hold({"StringEquals": both}, REQUEST)
    assert not hold(
        {"StringEquals": {"aws:SourceAccount": ["123456789012"]}, "Null": {"s3:prefix": ["true"]}}, REQUEST
    )
