"""Where a cluster's images are built."""

from __future__ import annotations

from dataclasses import dataclass

from aws_cdk import Environment, Stack
from aws_cdk import aws_ecr as ecr
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct

from slipway.infra.patterns.images.image_project import ImageProject, ImageProjectProps
from slipway.infra.patterns.storage.encryption import EncryptedLogGroup


@dataclass(frozen=True, slots=True, kw_only=True)
class ImagesProps:
    stack_name: str
    env: Environment
    project_name: str
    image: str
    architecture: str
    bucket: s3.IBucket
    repository: ecr.IRepository
    data_key: kms.IKey
    log_group: EncryptedLogGroup


class ImagesStack(Stack):
    def __init__(self, scope: Construct, id: str, *, props: ImagesProps) -> None:
        super().__init__(scope, id, stack_name=props.stack_name, env=props.env)
        ImageProject(
            self,
            "Project",
            props=ImageProjectProps(
                name=props.project_name,
                image=props.image,
                architecture=props.architecture,
                bucket=props.bucket,
                repository=props.repository,
                key=props.data_key,
                log_group=props.log_group,
            ),
        )
