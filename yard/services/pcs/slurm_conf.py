"""Writes slurm.conf and gres.conf of a PCS cluster, from its queues and node groups, for Debian's Slurm.

Nodes are Slurm's cloud nodes: the controller requests an instance for each from PCS, and releases idle ones.
Settings that a cluster may change are in _KNOWN_WORDS; those that Debian's older Slurm lacks are left out.
The records of PCS's resources are here, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from slipway.yard.errors import ApiError
from slipway.yard.machines.settings import real_seconds
from slipway.yard.services.pcs import accounts
from slipway.yard.services.pcs.plain_conf import PlainDaemons
from slipway.yard.services.recorded import Store, StoredRecord

FOLDER = "/run/yard/pcs"  # on the controller's host, shared by the yard and Slurm
STATE = f"{FOLDER}/state"  # outlives the host, as in PCS
PORT = 6817

# Slurm 22.05, slurm.conf(5), without the settings for control groups, which hosts of the yard lack.
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
# slurmctld does not start without a partition, while a PCS cluster may have no queue.
_NO_QUEUE_YET = "PartitionName=no-queue-yet Hidden=YES State=INACTIVE"
_RANGE = re.compile(r"\[(\d+)-(\d+)\]")
GPU = "gpu"  # the only GRES for which PCS makes a record itself


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRange:
    name: str
    smallest: int  # number of nodes that are never released
    largest: int
    vcpus: int
    memory_mib: int
    settings: Mapping[str, str] = field(default_factory=dict)
    gres: Sequence[Mapping[str, str]] = ()  # records of gres.conf; the setting Gres is in the node's line

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
    """Everything that the controller needs to know of its cluster."""

    name: str
    address: str
    groups: tuple[NodeRange, ...] = ()
    partitions: tuple[Partition, ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict)
    idle_s: int = 600  # until an idle node is released
    purge_days: int | None = None  # see accounts.purge_days

    @property
    def nodes(self) -> tuple[str, ...]:
        return tuple(node for group in self.groups for node in group.nodes)


def host_name(cluster: str) -> str:
    """Return the controller's host name, which slurmctld compares with its own."""
    return f"slurmctld-{cluster}"


def slurm_conf(cluster: SlurmSettings, plain: PlainDaemons | None = None) -> str:
    custom = {name: value for name, value in cluster.settings.items() if name in _KNOWN}
    static = [name for group in cluster.groups for name in group.static]
    entries = [entry for group in cluster.groups for entry in group.settings.get("Gres", "").split(",")]
    gres = {record["Name"] for group in cluster.groups for record in group.gres}
    gres |= {entry.partition(":")[0] for entry in entries if entry}
    lines = {
        **_ALWAYS,
        "ClusterName": cluster.name,
        "SlurmctldHost": f"{host_name(cluster.name)}({cluster.address})",
        "SuspendTime": str(cluster.idle_s),
        "KillWait": str(max(2, round(real_seconds(30)))),
        "ResumeTimeout": str(max(20, round(real_seconds(1800)))),
        **({"SuspendExcNodes": ",".join(static)} if static else {}),
        **({"GresTypes": ",".join(sorted(gres))} if gres else {}),
        **(accounts.slurm_lines(cluster.address) if cluster.purge_days is not None else {}),
        **custom,
    }
    if plain:
        lines = plain.lines(lines, cluster.address)
    body = [f"{name}={value}" for name, value in lines.items()]
    for group in (group for group in cluster.groups if group.largest):
        # One line for all nodes of a group, or, if they differ, one for each.
        if plain:
            body += [_node_line(group, name, plain.node_words(name)) for name in group.nodes]
        else:
            body.append(_node_line(group, _range(group), {}))
    body += [_partition_line(partition) for partition in cluster.partitions] or [_NO_QUEUE_YET]
    return "\n".join(body) + "\n"


def gres_conf(groups: Iterable[NodeRange]) -> str:
    """Return gres.conf. The yard's machines have no such devices, so they are only counted."""
    return "".join(
        f"NodeName={_range(group)} {_words(_counted(record, device))}\n"
        for group in groups
        if group.largest
        for record in group.gres
        for device in range(devices(record) if is_gpu_record(record) else 1)
    )


def left_out(settings: Mapping[str, str]) -> list[str]:
    """List the cluster's settings that Debian's Slurm refuses or the yard's hosts cannot apply."""
    return sorted(name for name in settings if name not in _KNOWN)


def _node_line(group: NodeRange, name: str, more: Mapping[str, str]) -> str:
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
    """Return the record with a count; a GPU needs a file with a name of its own, so each is one record."""
    rest = {name: value for name, value in record.items() if name not in ("AutoDetect", "File", "Count")}
    file = f"/dev/{'./' * device}null"  # exists on every machine
    field = {"File": file} if is_gpu_record(record) else {"Count": str(devices(record))}
    return {**rest, **field}


def devices(record: Mapping[str, str]) -> int:
    """Return the number of devices in a record; they may be listed as files."""
    found = _RANGE.search(record.get("File", ""))
    return int(record.get("Count") or (int(found[2]) - int(found[1]) + 1 if found else 1))


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
    "PrivateData": "cloud",  # show nodes that are powered off
    "ReturnToService": "1",
    "SlurmdParameters": "config_overrides",  # nodes have their instance type's processors, not this machine's
    "SlurmctldParameters": "enable_configless,idle_on_node_suspend,cloud_reg_addrs",
    "CommunicationParameters": "NoAddrCache",
    "TreeWidth": "65533",  # direct connections only: nodes cannot resolve each other
    "SchedulerParameters": "sched_interval=2,bf_interval=2,batch_sched_delay=0",
    "ResumeProgram": f"{FOLDER}/resume",
    "SuspendProgram": f"{FOLDER}/suspend",
    "ResumeFailProgram": f"{FOLDER}/failed",
    "SuspendTimeout": "5",
    "ResumeRate": "0",
    "SuspendRate": "0",
}


# Turns a PCS cluster's records into SlurmSettings.
IDLE_S = 600  # API reference, ClusterSlurmConfigurationRequest: scaleDownIdleTimeInSeconds
_SCHEDULED = 0.95  # share of an instance's memory for jobs; the system needs the rest


def of_cluster(record: StoredRecord, address: str) -> SlurmSettings:
    groups = {group.facts["id"]: node_group(group) for group in groups_of(record)}
    given = record.given.get("slurmConfiguration") or {}
    return SlurmSettings(
        name=record.name,
        address=address,
        groups=tuple(groups.values()),
        partitions=tuple(
            Partition(
                name=queue.name,
                groups=tuple(
                    groups[each["computeNodeGroupId"]]
                    for each in queue.given.get("computeNodeGroupConfigurations") or ()
                ),
                settings=custom_settings(queue),
            )
            for queue in store.of_kind(QUEUE.noun, record.region, record.arn)
        ),
        settings=custom_settings(record),
        purge_days=accounts.purge_days(record.given),
        idle_s=max(1, round(real_seconds(given.get("scaleDownIdleTimeInSeconds") or IDLE_S))),
    )


def node_group(record: StoredRecord) -> NodeRange:
    from moto.ec2.models.instance_types import INSTANCE_TYPES

    given = record.given
    kind = INSTANCE_TYPES[given["instanceConfigs"][0]["instanceType"]]
    slurm = given.get("slurmConfiguration") or {}
    gres = tuple(dict(record_of_gres) for record_of_gres in slurm.get("gresCustomSettings") or ())
    settings = custom_settings(record)
    listed = (kind.get("GpuInfo") or {}).get("Gpus", ())
    gpus = sum(each["Count"] for each in listed if each["Manufacturer"] == "NVIDIA")
    if gpus and not any(is_gpu_record(each) for each in gres):  # then PCS makes a record itself
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


def is_gpu_record(record: Mapping[str, str]) -> bool:
    """Return True for a record that replaces PCS's own."""
    return record.get("Name") == GPU or "AutoDetect" in record


# The records of PCS's three kinds of resource.


@dataclass(frozen=True, slots=True, kw_only=True)
class PcsKind:
    noun: str  # in operations such as CreateComputeNodeGroup
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


def find(kind: PcsKind, wanted: str, region: str, cluster: StoredRecord | None = None) -> StoredRecord:
    """Return the record with this name or id, within the cluster; raise ApiError if there is none."""
    for record in store.of_kind(kind.noun, region, cluster.arn if cluster else ""):
        if wanted in (record.name, record.facts["id"]):
            return record
    raise missing(kind.member, wanted)


def missing(what: str, identifier: str) -> ApiError:
    return ApiError("ResourceNotFoundException", f"there is no {what} '{identifier}'", status=404)


def custom_settings(record: StoredRecord) -> dict[str, str]:
    """Return a resource's custom Slurm settings: name -> value."""
    return settings_of(record.given.get("slurmConfiguration") or {})


def settings_of(given: Mapping[str, Any]) -> dict[str, str]:
    return {
        setting["parameterName"]: setting["parameterValue"]
        for setting in given.get("slurmCustomSettings") or ()
    }
