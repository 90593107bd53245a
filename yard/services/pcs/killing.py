"""Kills a node of a running Slurm job as a power failure would: `slipway yard kill-node JOB NODE`."""

from __future__ import annotations

from dataclasses import dataclass

from slipway.yard.machines.hosts import host_store, reconciler
from slipway.yard.services.pcs import clusters
from slipway.yard.services.pcs.clusters import RunningCluster

# One line per job: id, name, and its hosts in the order in which Slurm numbers the job's nodes.
_RUNNING = "squeue --noheader --array --states=RUNNING --Format=JobID:.32,Name:.256,NodeList:.4096"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningJob:
    """A running job, and the cluster that runs it."""

    id: str
    name: str
    nodes: str  # Slurm's host list
    cluster: RunningCluster


def kill_node_of_slurm(text: str, node: int) -> str | None:
    """Kill the host of a node, and return the job's name; None if no Slurm runs such a job."""
    running = [
        RunningJob(id=fields[0], name=fields[1], nodes=fields[2], cluster=cluster)
        for cluster in clusters.running()
        for line in cluster.controller.ask(*_RUNNING.split()).splitlines()
        if len(fields := line.split()) == 3 and fields[0].isdecimal()
    ]
    exact = [job for job in running if text in (job.id, job.name)]
    found = exact or [job for job in running if text and job.name.startswith(text)]
    if not found:
        return None
    if len(found) > 1:
        known = ", ".join(f"{job.name} ({job.id})" for job in found)
        raise ValueError(f"'{text}' matches {len(found)} running jobs; name one of: {known}")
    job = found[0]
    names = job.cluster.controller.ask("scontrol", "show", "hostnames", job.nodes).split()
    if not 0 <= node < len(names):
        raise ValueError(f"job {job.name} has no node {node}; it has 0 to {len(names) - 1}")
    host = host_store.hosts.get(job.cluster.nodes[names[node]].instance)
    if host is None:
        raise ValueError(f"node {names[node]} of job {job.name} no longer has a host")
    reconciler.kill(host)
    return job.name
