"""The secret from which the nodes of a cluster know each other: random, made by AWS, seen by nobody else.

Every node derives the same certificate authority from it, so that ssh between them needs neither a password
nor a host key taken on trust. It goes with its cluster: the nodes of the next one know another.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from aws_cdk import aws_iam as iam
from aws_cdk import aws_secretsmanager as secretsmanager
from constructs import Construct

from slipway.infra.patterns.encryption import EncryptionKey, EncryptionKeyProps, removal_policy
from slipway.infra.patterns.statements import Statement

_LETTERS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSecretProps:
    cluster: str
    region: str


class ClusterSecret(Construct):
    def __init__(self, scope: Construct, id: str, *, props: ClusterSecretProps) -> None:
        super().__init__(scope, id)
        self.key = EncryptionKey(
            self,
            "Key",
            props=EncryptionKeyProps(
                description=f"The secret of Slipway cluster {props.cluster}", region=props.region, keep=False
            ),
        ).key
        self.resource = secretsmanager.CfnSecret(
            self,
            "Resource",
            description=f"What the nodes of Slipway cluster {props.cluster} know each other by",
            kms_key_id=self.key.key_arn,
            generate_secret_string=secretsmanager.CfnSecret.GenerateSecretStringProperty(
                password_length=_LETTERS, exclude_punctuation=True
            ),
        )
        self.resource.apply_removal_policy(removal_policy(keep=False))
        self.region = props.region

    @cached_property
    def arn(self) -> str:
        return self.resource.ref

    def read_statements(self) -> tuple[Statement, ...]:
        read = Statement(
            sid="ReadTheClustersSecret", actions=["secretsmanager:GetSecretValue"], resources=[self.arn]
        )
        decrypt = Statement(
            sid="DecryptTheClustersSecret",
            actions=["kms:Decrypt"],
            resources=[self.key.key_arn],
            conditions={"StringEquals": {"kms:ViaService": f"secretsmanager.{self.region}.amazonaws.com"}},
        )
        return read, decrypt

    def close_to_all_but(self, role_arn: str) -> None:
        """Deny it to administrators, too: who changes this policy to open it again leaves a trace."""
        only_nodes = iam.PolicyStatement(
            sid="OnlyTheNodes",
            effect=iam.Effect.DENY,
            principals=[iam.AnyPrincipal()],
            actions=["secretsmanager:GetSecretValue"],
            resources=["*"],  # of the secret that this policy is attached to
            conditions={"StringNotEquals": {"aws:PrincipalArn": role_arn}},
        )
        secretsmanager.CfnResourcePolicy(
            self,
            "Policy",
            secret_id=self.arn,
            resource_policy=iam.PolicyDocument(statements=[only_nodes]),
            block_public_policy=True,
        )
