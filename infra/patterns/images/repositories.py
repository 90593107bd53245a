"""A registry for one image: a tag, once pushed, never means anything else."""

from __future__ import annotations

from dataclasses import dataclass

from aws_cdk import Duration, Stack
from aws_cdk import aws_ecr as ecr
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from constructs import Construct

from slipway.infra.patterns.storage.encryption import removal_policy


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageRepositoryProps:
    key: kms.IKey
    keep: bool


class ImageRepository(Construct):
    def __init__(self, scope: Construct, id: str, *, props: ImageRepositoryProps) -> None:
        super().__init__(scope, id)
        self.repository = ecr.Repository(
            self,
            "Resource",
            image_tag_mutability=ecr.TagMutability.IMMUTABLE,
            image_scan_on_push=True,
            encryption=ecr.RepositoryEncryption.KMS,
            encryption_key=props.key,
            empty_on_delete=not props.keep,  # ECR's own setting: no Lambda
            removal_policy=removal_policy(props.keep),
        )
        # A tagged image is named by a job definition, and a job may be repeated years later.
        self.repository.add_lifecycle_rule(
            description="Layers of failed pushes",
            tag_status=ecr.TagStatus.UNTAGGED,
            max_image_age=Duration.days(7),
        )

    @property
    def uri(self) -> str:
        """Return CloudFormation's attribute: the L2 puts the URI together from pieces of the ARN."""
        resource = self.repository.node.default_child
        assert isinstance(resource, ecr.CfnRepository), "the L2 makes one"
        return resource.attr_repository_uri


_PULL = ("ecr:BatchCheckLayerAvailability", "ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer")
_PUSH = ("ecr:CompleteLayerUpload", "ecr:InitiateLayerUpload", "ecr:PutImage", "ecr:UploadLayerPart")


def pull_statements(scope: Construct) -> tuple[iam.PolicyStatement, ...]:
    """Pull from any repository of this account and region: a job may name an older image, or a user's own."""
    return _statements(scope, "Pull", _PULL)


def push_statements(scope: Construct, repository: ecr.IRepository) -> tuple[iam.PolicyStatement, ...]:
    return _statements(scope, "Push", (*_PULL, *_PUSH, "ecr:DescribeImages"), repository.repository_arn)


def _statements(
    scope: Construct, verb: str, actions: tuple[str, ...], arn: str | None = None
) -> tuple[iam.PolicyStatement, ...]:
    # The token is for the whole registry: ecr:GetAuthorizationToken takes no resource.
    log_in = iam.PolicyStatement(sid=f"LogInTo{verb}", actions=["ecr:GetAuthorizationToken"], resources=["*"])
    any_repository = Stack.of(scope).format_arn(service="ecr", resource="repository", resource_name="*")
    move = iam.PolicyStatement(sid=f"{verb}Images", actions=list(actions), resources=[arn or any_repository])
    return log_in, move
