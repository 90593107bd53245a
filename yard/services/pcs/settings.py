"""A PCS cluster's records as what its controller needs to know."""

from __future__ import annotations

from slipway.yard.machines.settings import real_seconds
from slipway.yard.services.pcs.records import custom_settings, groups_of, queues_of
from slipway.yard.services.pcs.slurm_conf import NodeRange, Partition, SlurmSettings
from slipway.yard.services.recorded import StoredRecord

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
        idle_s=max(1, round(real_seconds(given.get("scaleDownIdleTimeInSeconds") or IDLE_S))),
    )


def node_group(record: StoredRecord) -> NodeRange:
    from moto.ec2.models.instance_types import INSTANCE_TYPES

    given = record.given
    kind = INSTANCE_TYPES[given["instanceConfigs"][0]["instanceType"]]
    slurm = given.get("slurmConfiguration") or {}
    return NodeRange(
        name=record.name,
        smallest=given["scalingConfiguration"]["minInstanceCount"],
        largest=given["scalingConfiguration"]["maxInstanceCount"],
        vcpus=kind["VCpuInfo"]["DefaultVCpus"],
        memory_mib=int(kind["MemoryInfo"]["SizeInMiB"] * _SCHEDULED),
        settings=custom_settings(record),
        gres=tuple(dict(each) for each in slurm.get("gresCustomSettings") or ()),
    )


def _partition(queue: StoredRecord, groups: dict[str, NodeRange]) -> Partition:
    configured = queue.given.get("computeNodeGroupConfigurations") or ()
    return Partition(
        name=queue.name,
        groups=tuple(groups[each["computeNodeGroupId"]] for each in configured),
        settings=custom_settings(queue),
    )
