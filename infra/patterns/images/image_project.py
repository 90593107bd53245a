"""Builds an image of containers/ in the cloud, so that nobody needs Docker.

The contract with `slipway build`: it uploads the image's source files as one zip, whose root is containers/,
to builds/ in the data bucket, and starts the project with sourceLocationOverride and the variables IMAGE (a
folder of images/), TAG and REPOSITORY (the URI). The project pushes REPOSITORY:TAG, or ends well where that
exists already.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from aws_cdk import aws_codebuild as codebuild
from aws_cdk import aws_ecr as ecr
from constructs import Construct

from slipway.infra.declare.types import BatchCluster
from slipway.infra.patterns.access.roles import ServiceRole, ServiceRoleProps
from slipway.infra.patterns.images.repositories import push_statements
from slipway.infra.patterns.storage.buckets import UseBucketProps, bucket_statements
from slipway.infra.patterns.storage.cluster_storage import ClusterStorage
from slipway.infra.patterns.storage.encryption import EncryptedLogGroup, write_logs
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageProjectProps:
    cluster: BatchCluster
    storage: ClusterStorage
    repository: ecr.IRepository
    log_group: EncryptedLogGroup


class ImageProject(Construct):
    def __init__(self, scope: Construct, id: str, *, props: ImageProjectProps) -> None:
        super().__init__(scope, id)
        role = _role(self, props)
        cluster = props.cluster
        machine = MACHINES[instance_type(cluster.instance_type).architecture]
        self.resource = codebuild.CfnProject(
            self,
            "Resource",
            name=build_project_name(cluster.name),
            description="Builds images of containers/ and pushes them under tags that never change",
            service_role=role.arn,
            encryption_key=props.storage.key.key_arn,
            artifacts=codebuild.CfnProject.ArtifactsProperty(type="NO_ARTIFACTS"),
            source=codebuild.CfnProject.SourceProperty(
                type="S3",
                location=f"{props.storage.bucket.bucket_name}/{SOURCE_PREFIX}{cluster.image}.zip",
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
                    status="ENABLED", group_name=props.log_group.name
                )
            ),
            timeout_in_minutes=_MINUTES,
            queued_timeout_in_minutes=60,
        )
        self.resource.node.add_dependency(role.policy)


def build_project_name(cluster: str) -> str:
    return derived_name("build-project", cluster, "images")


def build_spec() -> str:
    """Return the script as one command, so that shellcheck sees what runs. JSON is YAML to CodeBuild."""
    script = _SCRIPT.read_text(encoding="utf-8")
    spec = {"version": "0.2", "env": {"shell": "bash"}, "phases": {"build": {"commands": [script]}}}
    return json.dumps(spec, indent=2)


def _role(scope: Construct, props: ImageProjectProps) -> ServiceRole:
    use_bucket = UseBucketProps(bucket=props.storage.bucket, read=(f"{SOURCE_PREFIX}*",))
    return ServiceRole(
        scope,
        "Role",
        props=ServiceRoleProps(
            service="codebuild",
            description="Builds images: reads sources, pushes to one repository, writes its log",
            statements=(
                *bucket_statements(use_bucket),
                *push_statements(scope, props.repository),
                props.storage.use_keys(),
                write_logs(props.log_group.arn),
            ),
        ),
    )
