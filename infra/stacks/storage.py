"""What outlives a cluster: its data bucket, its shared files and its images, encrypted with one key."""

from __future__ import annotations

from dataclasses import replace

from constructs import Construct

from slipway.infra.declare.types import BatchCluster, Cluster, FileSystem
from slipway.infra.patterns.declared_stack import DeclaredStack
from slipway.infra.patterns.encryption import EncryptedLogGroup, EncryptionKey
from slipway.infra.patterns.images.image_project import ImageProject, ImageRepository
from slipway.infra.patterns.network.vpc import ClusterNetwork
from slipway.infra.patterns.storage.buckets import BucketOf, ClusterStorage
from slipway.infra.patterns.storage.file_systems import FILE_SYSTEMS, FileSystemProps, SharedFiles
from slipway.jobs.words.slurm import SCRATCH


class StorageStack(DeclaredStack):
    def __init__(
        self, scope: Construct, id: str, *, cluster: Cluster, network: ClusterNetwork, bucket: BucketOf
    ) -> None:
        super().__init__(scope, id, declared=cluster, tags=cluster.billing_tags)
        key = EncryptionKey(
            self,
            "DataKey",
            description=f"Data of Slipway cluster {cluster.name}",
            region=cluster.region,
            keep=cluster.keep_data,
        ).key
        self._files = FileSystemProps(
            name=id, cluster=cluster, vpc=network.vpc, key=key, mount_point=cluster.shared_mount
        )
        self.storage: ClusterStorage = ClusterStorage(
            bucket=bucket(self, cluster, key),
            key=key,
            files=FILE_SYSTEMS[cluster.file_system](self, "Files", self._files),
        )

    def add_image_repository(self) -> ImageRepository:
        """Add the repository of container images, for clusters whose jobs run in containers."""
        return ImageRepository(self, "Image", key=self.storage.key, keep=self._files.cluster.keep_data)

    def add_scratch(self) -> SharedFiles:
        """Add a Lustre for data that can be made again, besides the shared files."""
        props = replace(self._files, name=f"{self._files.name}-scratch", mount_point=SCRATCH)
        return FILE_SYSTEMS[FileSystem.FSX_LUSTRE](self, "Scratch", props)


# The project that builds a cluster's container image.


class ImagesStack(DeclaredStack):
    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        cluster: BatchCluster,
        storage: ClusterStorage,
        repository: ImageRepository,
        build_logs: EncryptedLogGroup,
    ) -> None:
        super().__init__(scope, id, declared=cluster, tags=cluster.billing_tags)
        ImageProject(
            self,
            "Project",
            cluster=cluster,
            storage=storage,
            repository=repository.repository,
            log_group=build_logs,
        )
