"""What a declaration names and this checkout must know: the image's folder, and its region's S3 addresses."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from infra.checks.secret_values import shown
from infra.checks.values import nearest
from infra.config import BatchCluster, Cluster, Egress, MpiCluster
from infra.patterns.s3_prefix_lists import S3_PREFIX_LISTS
from jobs.core.errors import Problem
from jobs.core.images import image_names

_CONTAINERS = Path(__file__).parents[2] / "containers"


def image_of_this_checkout(cluster: Cluster) -> Iterator[Problem]:
    assert isinstance(cluster, BatchCluster)
    known = image_names(_CONTAINERS)
    if cluster.image not in known:
        message = f"is {shown(cluster.image)}, which is no folder of containers/images with a Dockerfile"
        yield Problem(where="image", message=message, hint=nearest(cluster.image, known))


def machine_image_of_this_checkout(cluster: Cluster) -> Iterator[Problem]:
    assert isinstance(cluster, MpiCluster)
    known = tuple(sorted(path.parent.name for path in _CONTAINERS.glob("images/*/lock.toml")))
    if cluster.machine_image not in known:
        message = (
            f"is {shown(cluster.machine_image)}, which is no folder of containers/images with a lock.toml"
        )
        yield Problem(where="machine_image", message=message, hint=nearest(cluster.machine_image, known))


def prefix_list_of_region(cluster: Cluster) -> Iterator[Problem]:
    """Without a NAT gateway nodes may reach S3 and nothing else, by the list of its addresses."""
    if cluster.egress is Egress.ENDPOINTS and cluster.region not in S3_PREFIX_LISTS:
        yield Problem(
            where="egress",
            message=f"is endpoints in {cluster.region}, whose S3 prefix list is not known",
            hint="add it to infra/patterns/s3_prefix_lists.py, or use Egress.NAT",
        )
