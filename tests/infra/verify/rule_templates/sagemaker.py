"""The role of training jobs and what it may join: what passes every rule, and what does not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.infra.verify.rule_templates.names import IN, OUT, BadRow

ROLE = "AWS::IAM::Role"
_SAGEMAKER = {
    "Statement": [
        {
            "Effect": "Allow",
            "Action": "sts:AssumeRole",
            "Principal": {"Service": "sagemaker.amazonaws.com"},
        }
    ]
}


GOOD: Mapping[str, Any] = {}  # the one policy of access.py joins the network

BAD: tuple[BadRow, ...] = (
    ("sagemaker-group", IN, ("SourceSecurityGroupId",), "sg-1"),
    ("sagemaker-group", OUT, ("IpProtocol",), "tcp"),
    ("sagemaker-nothing-stands", "AWS::EC2::Subnet", ("<type>",), "AWS::SageMaker::Endpoint"),
    ("sagemaker-nothing-stands", "AWS::EC2::Subnet", ("<type>",), "AWS::SageMaker::Cluster"),
    ("sagemaker-role", ROLE, ("AssumeRolePolicyDocument",), _SAGEMAKER),
)
