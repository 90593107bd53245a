"""What a declaration names and this checkout must know: the image's folder, and its region's S3 addresses."""

from __future__ import annotations

from collections.abc import Iterator

from slipway.infra.declare.checks.secret_values import shown
from slipway.infra.declare.checks.values import nearest
from slipway.infra.declare.installed import CONTAINERS
from slipway.infra.declare.s3_prefix_lists import S3_PREFIX_LISTS
from slipway.infra.declare.types import BatchCluster, Cluster, Egress, MpiCluster, SlurmCluster
from slipway.jobs.words.errors import Problem
from slipway.jobs.words.images.ami_locks import machine_image_names
from slipway.jobs.words.images.containers import image_names


def image_of_this_checkout(cluster: Cluster) -> Iterator[Problem]:
    assert isinstance(cluster, BatchCluster)
    known = image_names(CONTAINERS)
    if cluster.image not in known:
        message = f"is {shown(cluster.image)}, which is not a folder of containers/images with a Dockerfile"
        yield Problem(where="image", message=message, hint=nearest(cluster.image, known))


def machine_image_of_this_checkout(cluster: Cluster) -> Iterator[Problem]:
    assert isinstance(cluster, MpiCluster | SlurmCluster)
    known = machine_image_names(CONTAINERS)
    if cluster.machine_image not in known:
        message = (
            f"is {shown(cluster.machine_image)}, which is not a folder of containers/images with a lock.toml "
            "and no Dockerfile"
        )
        yield Problem(where="machine_image", message=message, hint=nearest(cluster.machine_image, known))


def prefix_list_of_region(cluster: Cluster) -> Iterator[Problem]:
    """Check that the region's S3 addresses are known: without NAT, nodes reach only those."""
    if cluster.egress is Egress.ENDPOINTS and cluster.region not in S3_PREFIX_LISTS:
        yield Problem(
            where="egress",
            message=f"is endpoints in {cluster.region}, whose S3 prefix list is not known",
            hint="add it to infra/declare/s3_prefix_lists.py, or use Egress.NAT",
        )
