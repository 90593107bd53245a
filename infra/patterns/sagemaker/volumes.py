"""Says what a job is told of its disks: the key of its volume, and the path of shared files."""

from __future__ import annotations

from aws_cdk import aws_kms as kms

from slipway.infra.declare.types import SageMakerCluster
from slipway.infra.patterns.storage.file_systems import SharedFiles
from slipway.jobs.words.catalogue.instances import instance_type


def volume_key(cluster: SageMakerCluster, key: kms.IKey) -> str | None:
    """Return the cluster's key; None for local storage, which the host encrypts by itself.

    SageMaker refuses a job that names a key for such a type (API reference, ResourceConfig, VolumeKmsKeyId).
    """
    return None if instance_type(cluster.instance_type).local_storage_gb else key.key_arn


def file_system_path(files: SharedFiles) -> str | None:
    """Return what a job's channel names of a Lustre: its whole tree, which begins with the mount name."""
    return f"/{files.mount_name}" if files.file_system_id else None
