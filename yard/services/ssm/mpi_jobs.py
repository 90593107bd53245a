"""Finds the hosts, and the memory needs, of jobs that Run Command starts on an MPI cluster's main node."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from slipway.jobs.words import mpi
from slipway.jobs.words.errors import SlipwayError
from slipway.jobs.words.targets import PARAMETER_ROOT, MpiTarget, decode_target
from slipway.yard.machines.hosts import host_store, reconciler
from slipway.yard.machines.memory import Need
from slipway.yard.moto_backends import moto_backend
from slipway.yard.services.ssm.run_command import FINAL, Command, commands

_TO_THE_SECOND = len("2026-11-23T15:15:55")  # EC2's launch time, by which jobs number the nodes, has seconds


def kill_node_of_command(job: str, node: int) -> str | None:
    """Kill a node's host as a power failure would; return the job's name, or None if there is no such job."""
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
    # The hosts of the main node's cluster, in the order of its jobs' nodes: the longest running first.
    main = next(iter(found[0].invocations))
    with host_store.changed:
        cluster = host_store.hosts[main].instance.cluster if main in host_store.hosts else ""
        beside = [host for host in host_store.hosts.values() if cluster and host.instance.cluster == cluster]
    hosts = sorted(
        (host for host in beside if host.state == "running"),
        key=lambda host: (host.instance.launched_at[:_TO_THE_SECOND], host.instance.id),
    )
    name = _name(found[0])
    if not 0 <= node < len(hosts):
        raise ValueError(f"job {name} has no node {node}; it has 0 to {len(hosts) - 1}")
    reconciler.kill(hosts[node])
    return name


def _name(command: Command) -> str:
    return str(command.sent.get("Comment", ""))


# The memory that a job of an MPI cluster needs on this machine, from its request.
REQUEST_KEY = "RequestKey"  # the parameter of the document that runs a job


def need_of(document: str, parameters: Mapping[str, Sequence[str]], region: str) -> Need | None:
    """Return the memory that the command needs; None if it runs no job of ours, or one that waits for others.

    Such a job starts after the others have released their memory; reserving its own before could
    prevent them from starting.
    """
    keys = parameters.get(REQUEST_KEY) or ()
    buckets = (target.bucket for target in _targets(region) if keys and target.run_document == document)
    bucket = next(buckets, None)
    if not bucket:
        return None
    backend = moto_backend("s3")
    found = backend.get_object(bucket, keys[0]) if bucket in backend.buckets else None
    if found is None:
        return None
    try:
        job = mpi.decode(found.value.decode(errors="replace"), where=keys[0])
    except SlipwayError:  # it is unreadable, which the node will report
        return None
    if job.waits_for:
        return None
    # The NUMA domains of this machine, which its hosts see, too.
    domains = len(list(Path("/sys/devices/system/node").glob("node[0-9]*")))
    return Need(nodes=job.nodes, ranks=job.nodes * (job.processes_per_node or max(1, domains)))


def _targets(region: str) -> Iterator[MpiTarget]:
    for text, name in _records(region):
        try:
            target = decode_target(text, parameter=name)
        except SlipwayError:
            continue
        if isinstance(target, MpiTarget):
            yield target


def _records(region: str) -> Iterator[tuple[str, str]]:
    """Yield (name, text) of each target's parameter; SSM returns ten per page."""
    page: str | None = None
    while True:
        found, page = moto_backend("ssm", region).get_parameters_by_path(
            path=PARAMETER_ROOT, recursive=True, next_token=page
        )
        yield from ((each.value, each.name) for each in found)
        if page is None:
            return
