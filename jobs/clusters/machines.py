"""The machines that a person may enter: those of a cluster, or of one job as far as its platform tells.

A kind of cluster is a row of _OF_JOB, or of _CLOSED where nobody may enter its machines.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from slipway.jobs.cloud.aws import Unanswered, ask, ask_all, reader
from slipway.jobs.platforms.batch.runs import describe_jobs
from slipway.jobs.platforms.mpi.node.setting import USER
from slipway.jobs.submit.find import find_run, targets_to_search
from slipway.jobs.words.errors import SlipwayError
from slipway.jobs.words.names import CLUSTER_TAG
from slipway.jobs.words.run import AnyFound, JobState
from slipway.jobs.words.slurm import GROUP_TAG
from slipway.jobs.words.targets import BatchTarget, Target

_OWN_USERS = ("mpi", "slurm")  # jobs run as it there, and sshd of an MPI node lets in nobody else
_MOST_DESCRIBED = 100  # DescribeContainerInstances, API reference
_UBUNTU_DISK = "/dev/sda1"  # the root device of Ubuntu's AMIs; Amazon Linux has /dev/xvda
_CLOSED: Mapping[str, str] = {
    "sagemaker": "SageMaker's instances are not in your account, and nobody enters them",
}


class NoMachine(SlipwayError):
    """There is no machine to enter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    number: int
    name: str
    instance_id: str
    user: str  # whom its sshd lets in


@dataclass(frozen=True, slots=True, kw_only=True)
class Machines:
    """Hold machines in the order of their numbers, and what to know of a job on them."""

    of: str
    target: Target
    listed: Sequence[Machine]
    note: str = ""

    def choose(self, node: str | None) -> Machine:
        """Return the machine of this number, name or instance id; the first one if nobody says."""
        for machine in self.listed:
            if node in (None, str(machine.number), machine.name, machine.instance_id):
                return machine
        known = ", ".join(f"{each.number} is {each.name} ({each.instance_id})" for each in self.listed)
        raise NoMachine(f"{self.of} has no node {node!r}", hint=f"choose one: {known}")


def find_machines(place: str, region: str | None) -> Machines:
    """Return the machines of a cluster or of a job, which is named as `slipway status` takes it."""
    targets = targets_to_search(None, region)
    cluster = next((target for target in targets if target.name == place), None)
    if cluster is not None:
        _refuse_closed(cluster)
        return _needed(Machines(of=cluster.name, target=cluster, listed=_of_cluster(cluster)))
    found = find_run(place, targets)
    _refuse_closed(found.target)
    if found.run.state is not JobState.RUNNING:
        raise NoMachine(
            f"{found.run.name} is not running ({found.run.state})",
            hint=f"slipway ssh {found.target.name} enters a node of its cluster, if there is one",
        )
    return _needed(_OF_JOB[found.target.kind](found))


def _refuse_closed(target: Target) -> None:
    if why := _CLOSED.get(target.kind):
        raise NoMachine(
            f"{target.name}: {why}", hint="slipway logs JOB and slipway explain JOB tell of a job"
        )


def _needed(machines: Machines) -> Machines:
    if not machines.listed:
        raise NoMachine(
            f"no machine of {machines.of} is running",
            hint="a job starts what it needs: slipway submit, or slipway run; then slipway ssh JOB",
        )
    return machines


def _of_cluster(target: Target) -> list[Machine]:
    """Return those that run: a Slurm cluster's login node first, then by the time of their start."""
    filters = [
        {"Name": f"tag:{CLUSTER_TAG}", "Values": [target.name]},
        {"Name": "instance-state-name", "Values": ["running"]},
    ]
    found = ask_all(reader("ec2", target.region), "DescribeInstances", "Reservations", Filters=filters)
    if isinstance(found, Unanswered):
        raise NoMachine(
            f"{found.action} gave no answer: {found.code}, {found.message[:200]}",
            hint=f"allow {found.action} to your role" if found.is_denied else "run the same command again",
        )
    instances = [instance for reservation in found for instance in reservation["Instances"]]
    login = getattr(target, "login_group", None)
    instances.sort(key=lambda each: (not _is_in(each, login), each["LaunchTime"], each["InstanceId"]))
    return [_machine(number, each, target) for number, each in enumerate(instances)]


def _is_in(instance: Mapping[str, Any], group: str | None) -> bool:
    return group is not None and {"Key": GROUP_TAG, "Value": group} in instance.get("Tags", ())


def _machine(number: int, instance: Mapping[str, Any], target: Target) -> Machine:
    usual = "ubuntu" if instance.get("RootDeviceName") == _UBUNTU_DISK else "ec2-user"
    return Machine(
        number=number,
        name=str(instance.get("PrivateDnsName") or instance["InstanceId"]).partition(".")[0],
        instance_id=str(instance["InstanceId"]),
        user=USER if target.kind in _OWN_USERS else usual,
    )


def _of_mpi_job(found: AnyFound) -> Machines:
    """Return the nodes of the cluster's one job that runs: the one that leads it, and the oldest others."""
    main = next(iter(found.detail.get("InstanceIds", ())), None)
    known = sorted(_of_cluster(found.target), key=lambda each: each.instance_id != main)
    listed = [replace(each, number=number) for number, each in enumerate(known[: found.run.nodes])]
    return Machines(of=found.run.name, target=found.target, listed=listed)


def _of_slurm_job(found: AnyFound) -> Machines:
    step = f"sudo -iu {USER} srun --jobid={found.run.id} --overlap --pty bash -l"
    return Machines(
        of=found.run.name,
        target=found.target,
        listed=_of_cluster(found.target)[:1],
        note=f"this is the login node; to a node of the job: {step} (another than the first: -w HOST)",
    )


def _of_batch_job(found: AnyFound) -> Machines:
    """Return the machine of each node; AWS Batch tells it by the container instance of Amazon ECS."""
    target = cast(BatchTarget, found.target)
    nodes = [f"{found.run.id}#{node}" for node in range(found.run.nodes or 1)]
    told = {str(each["jobId"]): each.get("container", {}) for each in describe_jobs(target, nodes)}
    ids = _instances_of([told.get(node, {}).get("containerInstanceArn") for node in nodes], target.region)
    known = {machine.instance_id: machine for machine in _of_cluster(target)}
    listed = [replace(known[each], number=node) for node, each in enumerate(ids) if each in known]
    if not listed:
        raise NoMachine(
            f"AWS Batch names no machine of {found.run.name} that runs",
            hint="on AWS it does soon after the start; in the yard its nodes have no machines of their own, "
            "and can be followed: slipway logs JOB",
        )
    label = "sudo docker ps --filter label=com.amazonaws.ecs.task-arn"
    return Machines(
        of=found.run.name,
        target=target,
        listed=listed,
        note=f"this is the machine; the job is in a container on it: {label} names it, and "
        "sudo docker exec -it ID bash enters it",
    )


def _instances_of(arns: Sequence[str | None], region: str) -> list[str | None]:
    """Return the EC2 instance of each arn:aws:ecs:…:container-instance/CLUSTER/ID."""
    named, ids = [arn for arn in arns if arn], dict[str, str]()
    for start in range(0, len(named), _MOST_DESCRIBED):
        some = named[start : start + _MOST_DESCRIBED]
        asked = {"cluster": some[0].split("/")[1], "containerInstances": some}
        answer = ask(reader("ecs", region), "DescribeContainerInstances", **asked)
        if isinstance(answer, Unanswered):
            raise NoMachine(
                f"{answer.action} gave no answer: {answer.code}, {answer.message[:200]}",
                hint=f"allow {answer.action} to your role; slipway ssh CLUSTER does without",
            )
        ids |= {each["containerInstanceArn"]: each["ec2InstanceId"] for each in answer["containerInstances"]}
    return [ids.get(arn or "") for arn in arns]


_OF_JOB: Mapping[str, Callable[[AnyFound], Machines]] = {
    "batch": _of_batch_job,
    "mpi": _of_mpi_job,
    "slurm": _of_slurm_job,
}
