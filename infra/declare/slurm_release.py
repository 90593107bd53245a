"""Which release of Slurm a cluster's controller runs: that of its machine image, or no node could join."""

from __future__ import annotations

from slipway.infra.declare.installed import CONTAINERS
from slipway.infra.declare.types import SlurmCluster
from slipway.jobs.words.images.containers import read_lock


def slurm_release(cluster: SlurmCluster) -> str:
    """Return the first two parts of the version that the image's lock names, as AWS PCS writes releases."""
    lock = read_lock(CONTAINERS, cluster.machine_image)
    assert lock is not None, "a machine image has a lock"
    return ".".join(lock.host["slurm"].split(".")[:2])
