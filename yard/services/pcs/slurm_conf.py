"""slurm.conf and gres.conf of a PCS cluster, from its queues and node groups, as Debian's Slurm reads them.

Nodes are Slurm's cloud nodes: the controller asks PCS for an instance of each, and gives idle ones back. A
setting that the cluster may change is a line of _KNOWN; one that Debian's older Slurm has not is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from slipway.yard.errors import ApiError
from slipway.yard.machines.settings import real_seconds
from slipway.yard.services.pcs import accounts
from slipway.yard.services.pcs.plain_conf import PlainDaemons
from slipway.yard.services.recorded import Store, StoredRecord

FOLDER = "/run/yard/pcs"  # on the controller's host: what the yard and Slurm tell each other
STATE = f"{FOLDER}/state"  # outlives the host, as PCS's does
PORT = 6817

# Slurm 22.05, slurm.conf(5). Those of control groups are not there: hosts of the yard have no such limits.
_KNOWN_WORDS = """
    AccountingStoreFlags BatchStartTimeout CompleteWait DefMemPerCPU DefMemPerGPU DefMemPerNode
    DisableRootJobs EnforcePartLimits Epilog EpilogMsgTime GresTypes HealthCheckInterval HealthCheckNodeState
    HealthCheckProgram InactiveLimit
    JobRequeue KillOnBadExit KillWait LaunchParameters Licenses MaxArraySize MaxJobCount MaxMemPerCPU
    MaxMemPerNode MessageTimeout MinJobAge MpiDefault OverTimeLimit PreemptMode PreemptType
    PreemptExemptTime PriorityDecayHalfLife PriorityType PriorityWeightAge PriorityWeightFairshare
    PriorityWeightJobSize PriorityWeightPartition PriorityWeightQOS PrivateData Prolog PrologEpilogTimeout
    PrologFlags PropagatePrioProcess PropagateResourceLimits PropagateResourceLimitsExcept RebootProgram
    RequeueExit RequeueExitHold ResumeTimeout ReturnToService SchedulerParameters SelectTypeParameters
    SlurmctldTimeout SlurmdTimeout SrunEpilog SrunProlog SuspendTimeout TaskEpilog TaskProlog
    UnkillableStepTimeout VSizeFactor WaitTime
"""
_KNOWN = frozenset(_KNOWN_WORDS.split())
# slurmctld does not start without a partition, and PCS's does without a queue.
_NO_QUEUE_YET = "PartitionName=no-queue-yet Hidden=YES State=INACTIVE"
_RANGE = re.compile(r"\[(\d+)-(\d+)\]")
GPU = "gpu"  # the one resource of which PCS makes a record by itself


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRange:
    name: str
    smallest: int  # so many nodes are never given back
    largest: int
    vcpus: int
    memory_mib: int
    settings: Mapping[str, str] = field(default_factory=dict)
    gres: Sequence[Mapping[str, str]] = ()  # records of gres.conf; its node's line says Gres in the settings

    @property
    def nodes(self) -> tuple[str, ...]:
        return tuple(f"{self.name}-{number}" for number in range(1, self.largest + 1))

    @property
    def static(self) -> tuple[str, ...]:
        return self.nodes[: self.smallest]


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    name: str
    groups: tuple[NodeRange, ...]
    settings: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmSettings:
    """All of a cluster that its controller needs to know."""

    name: str
    address: str
    groups: tuple[NodeRange, ...] = ()
    partitions: tuple[Partition, ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict)
    idle_s: int = 600  # until an idle node is given back
    purge_days: int | None = None  # as in accounts.py

    @property
    def nodes(self) -> tuple[str, ...]:
        return tuple(node for group in self.groups for node in group.nodes)


def host_name(cluster: str) -> str:
    """Name the controller's host, which slurmctld compares with its own."""
    return f"slurmctld-{cluster}"


def slurm_conf(cluster: SlurmSettings, plain: PlainDaemons | None = None) -> str:
    own = {name: value for name, value in cluster.settings.items() if name in _KNOWN}
    static = [name for group in cluster.groups for name in group.static]
    lines = {
        **_ALWAYS,
        "ClusterName": cluster.name,
        "SlurmctldHost": f"{host_name(cluster.name)}({cluster.address})",
        "SuspendTime": str(cluster.idle_s),
        "KillWait": str(max(2, round(real_seconds(30)))),
        "ResumeTimeout": str(max(20, round(real_seconds(1800)))),
        **({"SuspendExcNodes": ",".join(static)} if static else {}),
        **({"GresTypes": ",".join(names)} if (names := sorted(set(_gres_names(cluster.groups)))) else {}),
        **(accounts.slurm_lines(cluster.address) if cluster.purge_days is not None else {}),
        **own,
    }
    if plain:
        lines = plain.lines(lines, cluster.address)
    body = [f"{name}={value}" for name, value in lines.items()]
    body += [line for group in cluster.groups if group.largest for line in _node_lines(group, plain)]
    body += [_partition_line(partition) for partition in cluster.partitions] or [_NO_QUEUE_YET]
    return "\n".join(body) + "\n"


def gres_conf(groups: Iterable[NodeRange]) -> str:
    """Return gres.conf. No machine here has the devices, so they are counted and not named by file."""
    return "".join(
        f"NodeName={_range(group)} {_words(_counted(record, device))}\n"
        for group in groups
        if group.largest
        for record in group.gres
        for device in range(devices(record) if is_gpu_record(record) else 1)
    )


def left_out(settings: Mapping[str, str]) -> list[str]:
    """List the cluster's settings that Debian's Slurm would refuse or the yard's hosts cannot follow."""
    return sorted(name for name in settings if name not in _KNOWN)


def _node_lines(group: NodeRange, plain: PlainDaemons | None) -> Iterator[str]:
    """Yield one line for all nodes of a group, or one for each where each says more of itself."""
    if plain is None:
        yield _nodes_line(group, _range(group), {})
        return
    for name in group.nodes:
        yield _nodes_line(group, name, plain.node_words(name))


def _nodes_line(group: NodeRange, name: str, more: Mapping[str, str]) -> str:
    words = {
        "NodeName": name,
        **more,
        "CPUs": str(group.vcpus),
        "RealMemory": str(group.memory_mib),
        **group.settings,
        "State": "CLOUD",
    }
    return _words(words)


def _partition_line(partition: Partition) -> str:
    nodes = ",".join(_range(group) for group in partition.groups if group.largest)
    words = {
        "PartitionName": partition.name,
        **({"Nodes": nodes} if nodes else {}),
        "MaxTime": "INFINITE",
        "State": "UP",
        **partition.settings,
    }
    return _words(words)


def _counted(record: Mapping[str, str], device: int) -> dict[str, str]:
    """Say how many, but of GPUs: Slurm counts none without files of different names, so each is a line."""
    kept = {name: value for name, value in record.items() if name not in ("AutoDetect", "File", "Count")}
    file = f"/dev/{'./' * device}null"  # which every machine has
    said = {"File": file} if is_gpu_record(record) else {"Count": str(devices(record))}
    return {**kept, **said}


def devices(record: Mapping[str, str]) -> int:
    """Count the devices of a record: by file it says how many there are."""
    found = _RANGE.search(record.get("File", ""))
    return int(record.get("Count") or (int(found[2]) - int(found[1]) + 1 if found else 1))


def _gres_names(groups: Iterable[NodeRange]) -> Iterator[str]:
    for group in groups:
        yield from (record["Name"] for record in group.gres)
        yield from (each.partition(":")[0] for each in group.settings.get("Gres", "").split(",") if each)


def _range(group: NodeRange) -> str:
    return f"{group.name}-[1-{group.largest}]"


def _words(given: Mapping[str, str]) -> str:
    return " ".join(f"{name}={value}" for name, value in given.items())


_ALWAYS: Mapping[str, str] = {
    "SlurmctldPort": str(PORT),
    "AuthType": "auth/munge",
    "CryptoType": "crypto/munge",
    "SlurmUser": "root",
    "StateSaveLocation": STATE,
    "SlurmdSpoolDir": "/var/spool/slurmd",
    "SlurmctldPidFile": "/run/slurmctld.pid",
    "SlurmdPidFile": "/run/slurmd.pid",
    "SlurmdLogFile": "/var/log/slurmd.log",
    "ProctrackType": "proctrack/linuxproc",
    "TaskPlugin": "task/none",
    "MailProg": "/bin/true",
    "SelectType": "select/cons_tres",
    "SelectTypeParameters": "CR_CPU",
    "PrivateData": "cloud",  # nodes that are off are listed
    "ReturnToService": "1",
    "SlurmdParameters": "config_overrides",  # a node has the processors of its type, and not this machine's
    "SlurmctldParameters": "enable_configless,idle_on_node_suspend,cloud_reg_addrs",
    "CommunicationParameters": "NoAddrCache",
    "TreeWidth": "65533",  # the controller reaches each node itself: no name service knows them
    "SchedulerParameters": "sched_interval=2,bf_interval=2,batch_sched_delay=0",
    "ResumeProgram": f"{FOLDER}/resume",
    "SuspendProgram": f"{FOLDER}/suspend",
    "ResumeFailProgram": f"{FOLDER}/failed",
    "SuspendTimeout": "5",
    "ResumeRate": "0",
    "SuspendRate": "0",
}


# A PCS cluster's records as what its controller needs to know.
IDLE_S = 600  # API reference, ClusterSlurmConfigurationRequest: scaleDownIdleTimeInSeconds
_SCHEDULED = 0.95  # of an instance's memory: the rest is its system's


def of_cluster(record: StoredRecord, address: str) -> SlurmSettings:
    groups = {group.facts["id"]: node_group(group) for group in groups_of(record)}
    given = record.given.get("slurmConfiguration") or {}
    return SlurmSettings(
        name=record.name,
        address=address,
        groups=tuple(groups.values()),
        partitions=tuple(_partition(queue, groups) for queue in queues_of(record)),
        settings=custom_settings(record),
        purge_days=accounts.purge_days(record.given),
        idle_s=max(1, round(real_seconds(given.get("scaleDownIdleTimeInSeconds") or IDLE_S))),
    )


def node_group(record: StoredRecord) -> NodeRange:
    from moto.ec2.models.instance_types import INSTANCE_TYPES

    given = record.given
    kind = INSTANCE_TYPES[given["instanceConfigs"][0]["instanceType"]]
    slurm = given.get("slurmConfiguration") or {}
    gres = tuple(dict(each) for each in slurm.get("gresCustomSettings") or ())
    settings = custom_settings(record)
    if (gpus := _gpus(kind)) and not any(is_gpu_record(each) for each in gres):
        gres = ({"Name": GPU, "Count": str(gpus)}, *gres)
        settings = {**settings, "Gres": ",".join([f"{GPU}:{gpus}", *filter(None, [settings.get("Gres")])])}
    return NodeRange(
        name=record.name,
        smallest=given["scalingConfiguration"]["minInstanceCount"],
        largest=given["scalingConfiguration"]["maxInstanceCount"],
        vcpus=kind["VCpuInfo"]["DefaultVCpus"],
        memory_mib=int(kind["MemoryInfo"]["SizeInMiB"] * _SCHEDULED),
        settings=settings,
        gres=gres,
    )


def _gpus(kind: Mapping[str, Any]) -> int:
    """Count the GPUs of which PCS makes a record by itself."""
    found = (kind.get("GpuInfo") or {}).get("Gpus", ())
    return sum(each["Count"] for each in found if each["Manufacturer"] == "NVIDIA")


def is_gpu_record(record: Mapping[str, str]) -> bool:
    """Return True for a record that takes the place of PCS's own."""
    return record.get("Name") == GPU or "AutoDetect" in record


def _partition(queue: StoredRecord, groups: dict[str, NodeRange]) -> Partition:
    configured = queue.given.get("computeNodeGroupConfigurations") or ()
    return Partition(
        name=queue.name,
        groups=tuple(groups[each["computeNodeGroupId"]] for each in configured),
        settings=custom_settings(queue),
    )


# What was created of AWS PCS, and how its three kinds of resource are told apart and found.


@dataclass(frozen=True, slots=True, kw_only=True)
class PcsKind:
    noun: str  # in the operations: CreateComputeNodeGroup
    path: str  # in ARNs: …/computenodegroup/<id>
    in_cluster: bool = True

    @property
    def member(self) -> str:
        return self.noun[0].lower() + self.noun[1:]


CLUSTER = PcsKind(noun="Cluster", path="cluster", in_cluster=False)
GROUP = PcsKind(noun="ComputeNodeGroup", path="computenodegroup")
QUEUE = PcsKind(noun="Queue", path="queue")
KINDS = (CLUSTER, GROUP, QUEUE)

store = Store()


def groups_of(cluster: StoredRecord) -> list[StoredRecord]:
    return store.of_kind(GROUP.noun, cluster.region, cluster.arn)


def queues_of(cluster: StoredRecord) -> list[StoredRecord]:
    return store.of_kind(QUEUE.noun, cluster.region, cluster.arn)


def find(kind: PcsKind, wanted: str, region: str, cluster: StoredRecord | None = None) -> StoredRecord:
    """Find by name or by id, within the cluster."""
    for record in store.of_kind(kind.noun, region, cluster.arn if cluster else ""):
        if wanted in (record.name, record.facts["id"]):
            return record
    raise missing(kind.member, wanted)


def missing(what: str, identifier: str) -> ApiError:
    return ApiError("ResourceNotFoundException", f"there is no {what} '{identifier}'", status=404)


def custom_settings(record: StoredRecord) -> dict[str, str]:
    """Return Slurm's own settings of a resource, by their names."""
    return settings_of(record.given.get("slurmConfiguration") or {})


def settings_of(given: Mapping[str, Any]) -> dict[str, str]:
    return {each["parameterName"]: each["parameterValue"] for each in given.get("slurmCustomSettings") or ()}
