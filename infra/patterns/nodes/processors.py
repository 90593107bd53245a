"""One thread a core: two training processes on the threads of one core only wait for each other.

EC2 does it at launch, by the CPU options; on bare metal there are none, and the first boot does it.
"""

from __future__ import annotations

from aws_cdk import aws_ec2 as ec2

from slipway.jobs.words.catalogue.instances import InstanceType

_CpuOptions = ec2.CfnLaunchTemplate.CpuOptionsProperty


def cpu_options(type_: InstanceType) -> _CpuOptions | None:
    """Return None if a core has one thread anyhow, or if the type takes no options."""
    if type_.cores is None or type_.cores == type_.vcpus or 1 not in type_.threads_per_core:
        return None
    return _CpuOptions(core_count=type_.cores, threads_per_core=1)  # EC2 wants both or neither


def threads_after_boot(type_: InstanceType) -> str:
    """Return what Linux is told about the second thread of a core: off where EC2 left it on."""
    left_on = type_.cores != type_.vcpus and cpu_options(type_) is None
    return "off" if left_on else "on"
