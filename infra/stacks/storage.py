"""What outlives a cluster: its data bucket, its shared files and its images, encrypted with one key."""

from __future__ import annotations

from dataclasses import dataclass

from aws_cdk import Environment, Stack
from constructs import Construct

from slipway.infra.declare.types import FileSystem
from slipway.infra.patterns.images.repositories import ImageRepository, ImageRepositoryProps
from slipway.infra.patterns.storage.buckets import DataBucket, DataBucketProps
from slipway.infra.patterns.storage.encryption import EncryptionKey, EncryptionKeyProps
from slipway.infra.patterns.storage.file_systems import FILE_SYSTEMS, FileSystemProps


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageProps:
    cluster: str
    stack_name: str
    env: Environment
    region: str
    vpc_id: str
    subnet_id: str
    file_system: FileSystem
    fsx_capacity_gib: int
    fsx_mbps_per_tib: int
    log_retention_days: int
    keep_data: bool


class StorageStack(Stack):
    def __init__(self, scope: Construct, id: str, *, props: StorageProps) -> None:
        super().__init__(scope, id, stack_name=props.stack_name, env=props.env)
        self.key = EncryptionKey(
            self,
            "DataKey",
            props=EncryptionKeyProps(
                description=f"Data of Slipway cluster {props.cluster}",
                region=props.region,
                keep=props.keep_data,
            ),
        ).key
        self.bucket = DataBucket(
            self,
            "Data",
            props=DataBucketProps(
                key=self.key, log_retention_days=props.log_retention_days, keep=props.keep_data
            ),
        ).bucket
        self.files = FILE_SYSTEMS[props.file_system](self, "Files", _file_system(self, props))
        self._keep = props.keep_data

    def add_image_repository(self) -> ImageRepository:
        """For clusters whose jobs run in containers."""
        return ImageRepository(self, "Image", props=ImageRepositoryProps(key=self.key, keep=self._keep))


def _file_system(stack: StorageStack, props: StorageProps) -> FileSystemProps:
    return FileSystemProps(
        name=props.stack_name,
        vpc_id=props.vpc_id,
        subnet_id=props.subnet_id,
        key=stack.key,
        capacity_gib=props.fsx_capacity_gib,
        mbps_per_tib=props.fsx_mbps_per_tib,
        keep=props.keep_data,
    )
