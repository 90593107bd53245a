"""The secret by which the nodes of a cluster trust each other: random, made by AWS, known to nobody else.

Every node derives the same certificate authority from it, so ssh between them needs neither a password nor a
host key taken on trust. It is deleted with its cluster: the next one's nodes have another.
"""

from __future__ import annotations

from functools import cached_property

from aws_cdk import aws_iam as iam
from aws_cdk import aws_secretsmanager as secretsmanager
from constructs import Construct

from slipway.infra.declare.types import Cluster
from slipway.infra.patterns.encryption import EncryptionKey, removal_policy
from slipway.infra.patterns.statements import Statement, allow

_LETTERS = 64


class ClusterSecret(Construct):
    def __init__(self, scope: Construct, id: str, *, cluster: Cluster) -> None:
        super().__init__(scope, id)
        described = f"The secret of Slipway cluster {cluster.name}"
        self.key = EncryptionKey(self, "Key", description=described, region=cluster.region, keep=False).key
        self.resource = secretsmanager.CfnSecret(
            self,
            "Resource",
            description=f"What the nodes of Slipway cluster {cluster.name} know each other by",
            kms_key_id=self.key.key_arn,
            generate_secret_string=secretsmanager.CfnSecret.GenerateSecretStringProperty(
                password_length=_LETTERS, exclude_punctuation=True
            ),
        )
        self.resource.apply_removal_policy(removal_policy(keep=False))
        self.region = cluster.region

    @cached_property
    def arn(self) -> str:
        return self.resource.ref

    def read_statements(self) -> tuple[Statement, ...]:
        read = allow("ReadTheClustersSecret", "secretsmanager:GetSecretValue", on=self.arn)
        decrypt = allow(
            "DecryptTheClustersSecret",
            "kms:Decrypt",
            on=self.key.key_arn,
            where={"StringEquals": {"kms:ViaService": f"secretsmanager.{self.region}.amazonaws.com"}},
        )
        return read, decrypt

    def close_to_all_but(self, role_arn: str) -> None:
        """Deny it to administrators, too: anyone who changes this policy to allow access leaves a trace."""
        only_nodes = iam.PolicyStatement(
            sid="OnlyTheNodes",
            effect=iam.Effect.DENY,
            principals=[iam.AnyPrincipal()],
            actions=["secretsmanager:GetSecretValue"],
            resources=["*"],  # the secret to which this policy is attached
            conditions={"StringNotEquals": {"aws:PrincipalArn": role_arn}},
        )
        secretsmanager.CfnResourcePolicy(
            self,
            "Policy",
            secret_id=self.arn,
            resource_policy=iam.PolicyDocument(statements=[only_nodes]),
            block_public_policy=True,
        )
