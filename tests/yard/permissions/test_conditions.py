"""Condition operators as IAM documents them: "Condition operators", "Multivalued context keys"."""

from __future__ import annotations

import pytest

from slipway.yard.permissions.conditions import hold

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
        # An absent key fails what asserts, and satisfies what denies.
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
