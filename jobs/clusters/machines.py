"""Finds the machines that a user may enter: those of a cluster, or of one job if its platform names them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from slipway.jobs.cloud.aws import answered, ask_all, reader
from slipway.jobs.platforms.platform import HasEntrance, entrance_of, platform_of
from slipway.jobs.submit.find import find_run, targets_to_search
from slipway.jobs.words.errors import SlipwayError
from slipway.jobs.words.names import CLUSTER_TAG
from slipway.jobs.words.run import AnyFound, JobState
from slipway.jobs.words.slurm import GROUP_TAG
from slipway.jobs.words.targets import Target

_UBUNTU_DISK = "/dev/sda1"  # the root device of Ubuntu's AMIs; Amazon Linux has /dev/xvda


class NoMachine(SlipwayError):
    """There is no machine to enter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EnteredNode:
    number: int
    name: str
    instance_id: str
    user: str  # the user that its sshd lets in


@dataclass(frozen=True, slots=True, kw_only=True)
class EnteredNodes:
    """Hold nodes in the order of their numbers, and what to tell the user about a job on them."""

    of: str
    target: Target
    listed: Sequence[EnteredNode]
    note: str = ""

    def choose(self, node: str | None) -> EnteredNode:
        """Return the node of this number, name or instance id; without one, the first."""
        for machine in self.listed:
            if node in (None, str(machine.number), machine.name, machine.instance_id):
                return machine
        known = ", ".join(f"{each.number} is {each.name} ({each.instance_id})" for each in self.listed)
        raise NoMachine(f"{self.of} has no node {node!r}", hint=f"choose one: {known}")


def find_machines(place: str, region: str | None) -> EnteredNodes:
    """Return the machines of a cluster or of a job; the job is named as for `slipway status`."""
    targets = targets_to_search(None, region)
    cluster = next((target for target in targets if target.name == place), None)
    if cluster is None:
        found = find_run(place, targets)
        return _of_job(found, _entrance(found.target))
    listed = _of_cluster(cluster, _entrance(cluster))
    if not listed:
        raise NoMachine(
            f"no machine of {cluster.name} is running",
            hint="a job starts what it needs: slipway submit, or slipway run; then slipway ssh JOB",
        )
    return EnteredNodes(of=cluster.name, target=cluster, listed=listed)


def _entrance(target: Target) -> HasEntrance[Target]:
    entrance = entrance_of(target)
    if entrance is None:
        raise NoMachine(
            f"{target.name}: {platform_of(target).SERVICE} owns its machines, and nobody can enter them",
            hint="slipway logs JOB and slipway explain JOB tell of a job",
        )
    return entrance


def _of_job(found: AnyFound, entrance: HasEntrance[Target]) -> EnteredNodes:
    run, target = found.run, found.target
    if run.state is not JobState.RUNNING:
        raise NoMachine(
            f"{run.name} is not running ({run.state})",
            hint=f"slipway ssh {target.name} enters a node of its cluster, if there is one",
        )
    way = entrance.way_into(run, target)
    known = {machine.instance_id: machine for machine in _of_cluster(target, entrance)}
    listed = [replace(known[each], number=node) for node, each in enumerate(way.instances) if each in known]
    if not listed:
        raise NoMachine(
            f"{platform_of(target).SERVICE} names no machine of {run.name} that runs",
            hint="on AWS it does soon after the start; in the yard nodes of AWS Batch have no machines of "
            "their own, and can be followed: slipway logs JOB",
        )
    return EnteredNodes(of=run.name, target=target, listed=listed, note=way.note)


def _of_cluster(target: Target, entrance: HasEntrance[Target]) -> list[EnteredNode]:
    """Return the running ones: a Slurm cluster's login node first, then by the time of their start."""
    filters = [
        {"Name": f"tag:{CLUSTER_TAG}", "Values": [target.name]},
        {"Name": "instance-state-name", "Values": ["running"]},
    ]
    found = ask_all(reader("ec2", target.region), "DescribeInstances", "Reservations", Filters=filters)
    instances = [instance for reservation in answered(found) for instance in reservation["Instances"]]
    login = {"Key": GROUP_TAG, "Value": getattr(target, "login_group", None)}
    instances.sort(
        key=lambda each: (login not in each.get("Tags", ()), each["LaunchTime"], each["InstanceId"])
    )
    return [
        EnteredNode(
            number=number,
            name=str(each.get("PrivateDnsName") or each["InstanceId"]).partition(".")[0],
            instance_id=str(each["InstanceId"]),
            user=entrance.ENTERED_AS
            or ("ubuntu" if each.get("RootDeviceName") == _UBUNTU_DISK else "ec2-user"),
        )
        for number, each in enumerate(instances)
    ]
