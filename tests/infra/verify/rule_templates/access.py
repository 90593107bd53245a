"""Policies, secrets, hidden code and the budget: what passes every rule, and what does not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.infra.verify.rule_templates.names import DATA, GONE, SELF, TEMPLATE, BadRow

ROLE = "AWS::IAM::Role"
POLICY = "AWS::IAM::ManagedPolicy"
SECRET = "AWS::SecretsManager::Secret"
SECRET_POLICY = "AWS::SecretsManager::ResourcePolicy"
DOCUMENT = "AWS::SSM::Document"
_IN_THE_GROUP = {"Fn::Join": ["", ["arn:aws:ec2:us-east-1:123456789012:security-group/", SELF]]}


GOOD: Mapping[str, Any] = {
    "Secret": {"Type": SECRET, "Properties": {"KmsKeyId": "key", "GenerateSecretString": {}}},
    "SecretPolicy": {
        "Type": SECRET_POLICY,
        "Properties": {
            "SecretId": {"Ref": "Secret"},
            "BlockPublicPolicy": True,
            "ResourcePolicy": {"Statement": [{"Effect": "Deny", "Action": "secretsmanager:GetSecretValue"}]},
        },
    },
    "Document": {
        "Type": DOCUMENT,
        "Properties": {"Content": {"mainSteps": [{"inputs": {"runCommand": ["exec run"]}}]}},
    },
    "Policy": {
        "Type": POLICY,
        "Properties": {
            "PolicyDocument": {
                "Statement": [
                    {"Effect": "Allow", "Action": "ecr:GetAuthorizationToken", "Resource": "*"},
                    {"Effect": "Allow", "Action": "ec2:CreateNetworkInterface", "Resource": [_IN_THE_GROUP]},
                ]
            }
        },
    },
    "Budget": {
        "Type": "AWS::Budgets::Budget",
        "Properties": {
            "Budget": {"CostFilters": {"TagKeyValue": ["user:slipway:cluster$dl1"]}},
            "NotificationsWithSubscribers": [{"Subscribers": [{"SubscriptionType": "EMAIL"}]}],
        },
    },
}

BAD: tuple[BadRow, ...] = (
    ("budget-counts", "AWS::Budgets::Budget", ("Budget", "CostFilters"), {}),
    ("budget-counts", "AWS::Budgets::Budget", ("Budget", "CostFilters", "TagKeyValue"), ["user:team$a"]),
    ("budget-tells", "AWS::Budgets::Budget", ("NotificationsWithSubscribers",), []),
    ("nothing-hidden", "AWS::EC2::Subnet", ("<type>",), "Custom::Emptier"),
    ("nothing-hidden", "AWS::EC2::Subnet", ("<type>",), "AWS::Lambda::Function"),
    ("policy-actions", POLICY, ("PolicyDocument", "Statement", 0, "Action"), "ecr:*"),
    ("policy-actions", POLICY, ("PolicyDocument", "Statement", 0, "Action"), ["s3:GetObject", "*"]),
    ("policy-actions", POLICY, ("PolicyDocument", "Statement", 0, "NotAction"), "iam:*"),
    ("policy-any-resource", POLICY, ("PolicyDocument", "Statement", 0, "Action"), "s3:GetObject"),
    ("policy-no-full-access", ROLE, ("ManagedPolicyArns",), ["arn:aws:iam::aws:policy/AmazonS3FullAccess"]),
    ("trust-host-keys", TEMPLATE, (*DATA, "UserData"), "ssh -o StrictHostKeyChecking=no ip-10-30-0-5"),
    ("trust-host-keys", TEMPLATE, (*DATA, "UserData"), {"Fn::Base64": "StrictHostKeyChecking accept-new"}),
    ("trust-host-keys", DOCUMENT, ("Content",), {"run": "ssh -o UserKnownHostsFile=/dev/null -- x"}),
    ("trust-secrets-closed", SECRET, ("KmsKeyId",), GONE),
    ("trust-secrets-closed", SECRET, ("SecretString",), "in plain sight"),
    ("trust-secrets-closed", SECRET, ("GenerateSecretString",), GONE),
    ("trust-secrets-closed", SECRET_POLICY, ("BlockPublicPolicy",), False),
    ("trust-secrets-closed", SECRET_POLICY, ("SecretId",), {"Ref": "Another"}),
    ("policy-actions", SECRET_POLICY, ("ResourcePolicy", "Statement"), {"Effect": "Allow", "Action": "*"}),
)
