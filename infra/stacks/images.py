"""Where the container image of a cluster is built."""

from __future__ import annotations

from dataclasses import dataclass

from constructs import Construct

from slipway.infra.declare.types import BatchCluster
from slipway.infra.patterns.declared_stack import DeclaredStack
from slipway.infra.patterns.images.image_project import ImageProject, ImageProjectProps
from slipway.infra.patterns.images.repositories import ImageRepository
from slipway.infra.patterns.storage.cluster_storage import ClusterStorage
from slipway.infra.patterns.storage.encryption import EncryptedLogGroup


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
