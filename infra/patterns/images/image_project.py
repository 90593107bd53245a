"""Builds an image of containers/ in the cloud, so that nobody needs Docker.

The contract with `slipway image build`: it uploads the image's sources as one zip, whose root is containers/,
to builds/ in the data bucket, and starts the project with sourceLocationOverride and the variables IMAGE (a
folder of images/), TAG and REPOSITORY (the URI). The project pushes REPOSITORY:TAG, or succeeds at once if
that exists already.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from aws_cdk import Duration, Stack
from aws_cdk import aws_codebuild as codebuild
from aws_cdk import aws_ecr as ecr
from aws_cdk import aws_kms as kms
from constructs import Construct

from slipway.infra.declare.node_images import container_of
from slipway.infra.declare.types import BatchCluster
from slipway.infra.patterns.access.roles import ServiceRole
from slipway.infra.patterns.encryption import EncryptedLogGroup, removal_policy, write_logs
from slipway.infra.patterns.statements import Statement, allow
from slipway.infra.patterns.storage.buckets import ClusterStorage, bucket_statements
from slipway.jobs.words.catalogue.instances import instance_type
from slipway.jobs.words.names import derived_name

SOURCE_PREFIX = "builds/"
_SCRIPT = Path(__file__).parents[2] / "components" / "build_image.sh"
_MINUTES = 120  # images of accelerator vendors are tens of gigabytes


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildMachine:
    environment: str
    image: str


# CodeBuild user guide, "Docker images provided by CodeBuild"; an image is built on the architecture that it
# runs on.
MACHINES: Mapping[str, BuildMachine] = {
    "x86_64": BuildMachine(
        environment="LINUX_CONTAINER", image="aws/codebuild/amazonlinux-x86_64-standard:5.0"
    ),
    "arm64": BuildMachine(
        environment="ARM_CONTAINER", image="aws/codebuild/amazonlinux-aarch64-standard:3.0"
    ),
}


class ImageProject(Construct):
    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        cluster: BatchCluster,
        storage: ClusterStorage,
        repository: ecr.IRepository,
        log_group: EncryptedLogGroup,
    ) -> None:
        super().__init__(scope, id)
        role = ServiceRole(
            self,
            "Role",
            service="codebuild",
            description="Builds images: reads sources, pushes to one repository, writes its log",
            statements=(
                *bucket_statements(storage.bucket, read=(f"{SOURCE_PREFIX}*",)),
                *_statements(self, "Push", (*_PULL, *_PUSH), repository.repository_arn),
                storage.use_keys(),
                write_logs(log_group.arn),
            ),
        )
        machine = MACHINES[instance_type(cluster.instance_type).architecture]
        self.resource = codebuild.CfnProject(
            self,
            "Resource",
            name=build_project_name(cluster.name),
            description="Builds images of containers/ and pushes them under tags that never change",
            service_role=role.arn,
            encryption_key=storage.key.key_arn,
            artifacts=codebuild.CfnProject.ArtifactsProperty(type="NO_ARTIFACTS"),
            source=codebuild.CfnProject.SourceProperty(
                type="S3",
                location=f"{storage.bucket.bucket_name}/{SOURCE_PREFIX}{container_of(cluster)}.zip",
                build_spec=build_spec(),
            ),
            environment=codebuild.CfnProject.EnvironmentProperty(
                type=machine.environment,
                image=machine.image,
                compute_type="BUILD_GENERAL1_LARGE",
                privileged_mode=True,  # the Docker daemon of the build needs it
            ),
            logs_config=codebuild.CfnProject.LogsConfigProperty(
                cloud_watch_logs=codebuild.CfnProject.CloudWatchLogsConfigProperty(
                    status="ENABLED", group_name=log_group.name
                )
            ),
            timeout_in_minutes=_MINUTES,
            queued_timeout_in_minutes=60,
        )
        self.resource.node.add_dependency(role.policy)


def build_project_name(cluster: str) -> str:
    return derived_name("build-project", cluster, "images")


def build_spec() -> str:
    """Return the script as one command, so that shellcheck sees what runs; JSON is YAML for CodeBuild."""
    script = _SCRIPT.read_text(encoding="utf-8")
    spec = {"version": "0.2", "env": {"shell": "bash"}, "phases": {"build": {"commands": [script]}}}
    return json.dumps(spec, indent=2)


# A registry for one image: a tag, once pushed, never means anything else.


class ImageRepository(Construct):
    def __init__(self, scope: Construct, id: str, *, key: kms.IKey, keep: bool) -> None:
        super().__init__(scope, id)
        self.repository = ecr.Repository(
            self,
            "Resource",
            image_tag_mutability=ecr.TagMutability.IMMUTABLE,
            image_scan_on_push=True,
            encryption=ecr.RepositoryEncryption.KMS,
            encryption_key=key,
            empty_on_delete=not keep,  # ECR's own setting: no Lambda
            removal_policy=removal_policy(keep),
        )
        # A job definition may name any tagged image, and a job may be repeated years later.
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
_PUSH = (
    "ecr:CompleteLayerUpload",
    "ecr:InitiateLayerUpload",
    "ecr:PutImage",
    "ecr:UploadLayerPart",
    "ecr:DescribeImages",
)


def pull_statements(scope: Construct, registry: str | None = None) -> tuple[Statement, ...]:
    """Allow any repository of this account and region: a job may name an older image, or a user's own.

    `registry` is the account of AWS's that publishes the cluster's own image.
    """
    own = _statements(scope, "Pull", _PULL)
    if registry is None:
        return own
    any_of_aws = Stack.of(scope).format_arn(
        service="ecr", resource="repository", resource_name="*", account=registry
    )
    return *own, allow("PullAwsImages", *_PULL, on=any_of_aws)


def _statements(
    scope: Construct, verb: str, actions: tuple[str, ...], arn: str | None = None
) -> tuple[Statement, ...]:
    log_in = allow(f"LogInTo{verb}", "ecr:GetAuthorizationToken", on="*")
    any_repository = Stack.of(scope).format_arn(service="ecr", resource="repository", resource_name="*")
    move = allow(f"{verb}Images", *actions, on=arn or any_repository)
    return log_in, move
