"""Finds the host that is a node of a job which Run Command started on the main node of an MPI cluster."""

from __future__ import annotations

from slipway.yard.machines.hosts import host_store, reconciler
from slipway.yard.machines.hosts.host_store import Host
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
