"""Finds the host that is a node of a job which Run Command started on the main node of an MPI cluster."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from slipway.jobs.words import mpi
from slipway.jobs.words.errors import SlipwayError
from slipway.jobs.words.mpi import MpiJob
from slipway.jobs.words.targets import PARAMETER_ROOT, MpiTarget, decode_target
from slipway.yard.machines.hosts import host_store, reconciler
from slipway.yard.machines.hosts.host_store import Host
from slipway.yard.machines.memory import Need
from slipway.yard.moto_backends import moto_backend
from slipway.yard.services.ssm.run_command import FINAL, Command, commands

_TO_THE_SECOND = len("2026-11-23T15:15:55")  # as EC2 tells it to those who number the nodes


def kill_node_of_command(job: str, node: int) -> str | None:
    """Kill the host as a power failure would; return the job's name, or None where no command has it."""
    running = [
        command for command in list(commands.values()) if command.status not in FINAL and _name(command)
    ]
    exact = [command for command in running if job in (command.id, _name(command))]
    found = exact or [command for command in running if job and _name(command).startswith(job)]
    if not found:
        return None
    if len(found) > 1:
        known = ", ".join(f"{_name(command)} ({command.id})" for command in found)
        raise ValueError(f"'{job}' matches {len(found)} running jobs; name one of: {known}")
    hosts = _hosts_beside(next(iter(found[0].invocations)))
    name = _name(found[0])
    if not 0 <= node < len(hosts):
        raise ValueError(f"job {name} has no node {node}; it has 0 to {len(hosts) - 1}")
    reconciler.kill(hosts[node])
    return name


def _name(command: Command) -> str:
    return str(command.sent.get("Comment", ""))


def _hosts_beside(main: str) -> list[Host]:
    """List the hosts of an instance's cluster as its jobs number them: the longest running first."""
    with host_store.changed:
        cluster = host_store.hosts[main].instance.cluster if main in host_store.hosts else ""
        hosts = [each for each in host_store.hosts.values() if cluster and each.instance.cluster == cluster]
    alive = [each for each in hosts if each.state == "running"]
    return sorted(alive, key=lambda each: (each.instance.launched_at[:_TO_THE_SECOND], each.instance.id))


# What a job of an MPI cluster takes of this machine's memory, by its request, before its nodes read it.
REQUEST_KEY = "RequestKey"  # the parameter of the document that runs a job
_DOMAINS = "sys/devices/system/node"


def need_of(document: str, parameters: Mapping[str, Sequence[str]], region: str) -> Need | None:
    """Return the memory that the command needs; None if it runs no job of ours and so needs little.

    A job that waits for others begins when these have given back theirs, and holding its own until then could
    keep them from starting.
    """
    keys = parameters.get(REQUEST_KEY) or ()
    buckets = (target.bucket for target in _targets(region) if keys and target.run_document == document)
    bucket = next(buckets, None)
    job = _request(bucket, keys[0]) if bucket else None
    if job is None or job.waits_for:
        return None
    return Need(nodes=job.nodes, ranks=job.nodes * (job.processes_per_node or _numa_domains(Path("/"))))


def _targets(region: str) -> Iterator[MpiTarget]:
    for text, name in _records(region):
        try:
            target = decode_target(text, parameter=name)
        except SlipwayError:
            continue
        if isinstance(target, MpiTarget):
            yield target


def _records(region: str) -> Iterator[tuple[str, str]]:
    """Each target's text, and where it lies; ten make a page."""
    page: str | None = None
    while True:
        found, page = moto_backend("ssm", region).get_parameters_by_path(
            path=PARAMETER_ROOT, recursive=True, next_token=page
        )
        yield from ((each.value, each.name) for each in found)
        if page is None:
            return


def _request(bucket: str, key: str) -> MpiJob | None:
    """Read the request; return None if it is unreadable, for the node will say so."""
    backend = moto_backend("s3")
    found = backend.get_object(bucket, key) if bucket in backend.buckets else None
    if found is None:
        return None
    try:
        return mpi.decode(found.value.decode(errors="replace"), where=key)
    except SlipwayError:
        return None


def _numa_domains(root: Path) -> int:
    """Count the domains as the nodes do: hosts of the yard see this machine's."""
    return max(1, len(list((root / _DOMAINS).glob("node[0-9]*"))))
