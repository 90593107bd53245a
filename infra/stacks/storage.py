"""What outlives a cluster: its data bucket, its shared files and its images, encrypted with one key."""

from __future__ import annotations

from dataclasses import dataclass, replace

from constructs import Construct

from slipway.infra.declare.types import BatchCluster, Cluster, FileSystem
from slipway.infra.patterns.declared_stack import DeclaredStack
from slipway.infra.patterns.encryption import EncryptedLogGroup, EncryptionKey, EncryptionKeyProps
from slipway.infra.patterns.images.image_project import (
    ImageProject,
    ImageProjectProps,
    ImageRepository,
    ImageRepositoryProps,
)
from slipway.infra.patterns.network.vpc import ClusterNetwork
from slipway.infra.patterns.storage.buckets import BucketOf, ClusterStorage
from slipway.infra.patterns.storage.file_systems import FILE_SYSTEMS, FileSystemProps, SharedFiles
from slipway.jobs.words.slurm import SCRATCH


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageStackProps:
    cluster: Cluster
    network: ClusterNetwork
    bucket: BucketOf


class StorageStack(DeclaredStack):
    def __init__(self, scope: Construct, id: str, *, props: StorageStackProps) -> None:
        cluster = props.cluster
        super().__init__(scope, id, declared=cluster, tags=cluster.billing_tags)
        key = EncryptionKey(
            self,
            "DataKey",
            props=EncryptionKeyProps(
                description=f"Data of Slipway cluster {cluster.name}",
                region=cluster.region,
                keep=cluster.keep_data,
            ),
        ).key
        files = FileSystemProps(
            name=id, cluster=cluster, vpc=props.network.vpc, key=key, mount_point=cluster.shared_mount
        )
        self._files = files
        self.storage: ClusterStorage = ClusterStorage(
            bucket=props.bucket(self, cluster, key),
            key=key,
            files=FILE_SYSTEMS[cluster.file_system](self, "Files", files),
        )
        self._keep = cluster.keep_data

    def add_image_repository(self) -> ImageRepository:
        """Add the repository of container images, for clusters whose jobs run in containers."""
        props = ImageRepositoryProps(key=self.storage.key, keep=self._keep)
        return ImageRepository(self, "Image", props=props)

    def add_scratch(self) -> SharedFiles:
        """Add a Lustre for data that can be had again, besides the shared files."""
        props = replace(self._files, name=f"{self._files.name}-scratch", mount_point=SCRATCH)
        return FILE_SYSTEMS[FileSystem.FSX_LUSTRE](self, "Scratch", props)


# Where the container image of a cluster is built.


@dataclass(frozen=True, slots=True, kw_only=True)
class ImagesStackProps:
    cluster: BatchCluster
    storage: ClusterStorage
    repository: ImageRepository
    build_logs: EncryptedLogGroup


class ImagesStack(DeclaredStack):
    def __init__(self, scope: Construct, id: str, *, props: ImagesStackProps) -> None:
        super().__init__(scope, id, declared=props.cluster, tags=props.cluster.billing_tags)
        ImageProject(
            self,
            "Project",
            props=ImageProjectProps(
                cluster=props.cluster,
                storage=props.storage,
                repository=props.repository.repository,
                log_group=props.build_logs,
            ),
        )
