"""What a job of an MPI cluster takes of this machine's memory, by its request, before its nodes read it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from jobs.core import mpi_job
from jobs.core.errors import SlipwayError
from jobs.core.mpi_job import MpiJob
from jobs.core.targets import PARAMETER_ROOT, MpiTarget, decode_target
from jobs.yard.endpoint import ACCOUNT
from jobs.yard.memory import Need

REQUEST_KEY = "RequestKey"  # the parameter of the document that runs a job
_DOMAINS = "sys/devices/system/node"
_MOST_TARGETS = 1000  # of a page: moto gives ten unasked


def need_of(document: str, parameters: Mapping[str, Sequence[str]], region: str) -> Need | None:
    """None where the command runs no job of ours: it is as small as what an agent runs on AWS."""
    keys = parameters.get(REQUEST_KEY) or ()
    bucket = next((each.bucket for each in _targets(region) if each.run_document == document), None)
    job = _request(bucket, keys[0]) if bucket and keys else None
    if job is None:
        return None
    return Need(nodes=job.nodes, ranks=job.nodes * (job.processes_per_node or _numa_domains(Path("/"))))


def _targets(region: str) -> Iterator[MpiTarget]:
    from moto.ssm.models import ssm_backends

    found, _ = ssm_backends[ACCOUNT][region].get_parameters_by_path(
        path=PARAMETER_ROOT, recursive=True, max_results=_MOST_TARGETS
    )
    for parameter in found:
        try:
            target = decode_target(parameter.value, parameter=parameter.name)
        except SlipwayError:
            continue
        if isinstance(target, MpiTarget):
            yield target


def _request(bucket: str, key: str) -> MpiJob | None:
    """None where it cannot be read: the node then says so."""
    from moto.s3.models import s3_backends

    backend = s3_backends[ACCOUNT]["aws"]
    found = backend.get_object(bucket, key) if bucket in backend.buckets else None
    if found is None:
        return None
    try:
        return mpi_job.decode(found.value.decode(errors="replace"), where=key)
    except SlipwayError:
        return None


def _numa_domains(root: Path) -> int:
    """As the nodes count them: hosts of the yard see this machine's."""
    return max(1, len(list((root / _DOMAINS).glob("node[0-9]*"))))
