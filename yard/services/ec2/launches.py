"""Patches moto: checks launches against the account's quotas, and handles volumes, launch delays and AMIs."""

from __future__ import annotations

import re
import threading
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any

from slipway.yard.chaos import conditions
from slipway.yard.errors import ApiError
from slipway.yard.gateway.protocols import Call, Reply
from slipway.yard.machines.hosts import reconciler
from slipway.yard.moto_backends import moto_backend
from slipway.yard.services.refusals import there
from slipway.yard.services.refusals.table import values_at
from slipway.yard.services.service_quotas import quotas

ROOTS = ("/dev/sda1", "/dev/xvda")


@lru_cache(maxsize=1)
def guard() -> None:
    """Patch moto's launches once, since its classes outlive a reset."""
    from moto.ec2.exceptions import EC2ClientError
    from moto.ec2.models.instances import InstanceBackend

    launch = InstanceBackend.run_instances

    def run_instances(backend: Any, image_id: str, count: int, *rest: Any, **more: Any) -> Any:
        market = str(more.get("instance_market_options") or quotas.ON_DEMAND)
        try:
            quotas.refuse_above(_type(backend, more), count, backend.region_name, market)
        except ApiError as refused:
            raise EC2ClientError(refused.code, refused.message) from refused
        made = launch(backend, image_id, count, *rest, **more)
        # A launch may name an interface, or say if one is deleted with the instance.
        told = ("NetworkInterfaceId", "DeleteOnTermination")
        if not any(name in nic for nic in more.get("nics") or () for name in told):
            for instance in made.instances:
                instance.nics[0].delete_on_termination = True
        for instance in made.instances:
            _end_root_with(instance, _disks(backend, more))
        return made

    InstanceBackend.run_instances = run_instances


def _type(backend: Any, asked: dict[str, Any]) -> str:
    """Return the requested type, which may come from the launch template."""
    if asked.get("is_instance_type_default") and asked.get("launch_template"):
        template = backend._get_template_from_args(asked["launch_template"])
        return str(template.data.get("InstanceType") or asked["instance_type"])
    return str(asked["instance_type"])


def _disks(backend: Any, asked: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the launch template's disks; [] if the launch specifies disks, which moto handles."""
    if not asked.get("launch_template") or asked.get("block_device_mappings"):
        return []
    found = backend._get_template_from_args(asked["launch_template"])
    return list(found.data.get("BlockDeviceMappings") or ())


def _end_root_with(instance: Any, disks: list[dict[str, Any]]) -> None:
    """Delete the root volume with its instance by default; moto keeps it if the template resizes it."""
    for disk in disks:
        name, told = disk["DeviceName"], disk.get("Ebs") or {}
        if name in ROOTS and "DeleteOnTermination" not in told and name in instance.block_device_mapping:
            instance.block_device_mapping[name].delete_on_termination = True


# DescribeInstanceTypeOfferings: its filters accept wildcards, as all of EC2's do.


@lru_cache(maxsize=1)
def show() -> None:
    """Patch moto's comparison once, since its classes outlive a reset."""
    from moto.ec2.models.instance_types import InstanceTypeOfferingBackend

    plain = InstanceTypeOfferingBackend.matches_filters

    def matches(self: Any, offering: dict[str, Any], filters: Any, location_type: str) -> bool:
        types = filters.get("instance-type")
        rest = {name: values for name, values in filters.items() if name != "instance-type"}
        name = offering["InstanceType"]
        is_asked = types is None or any(fnmatchcase(name, pattern) for pattern in types)
        return is_asked and bool(plain(self, offering, rest, location_type))

    InstanceTypeOfferingBackend.matches_filters = matches


# An instance is pending before it runs, as long as the fault `launch-delay` says.
_ID = re.compile(rb"<instanceId>(i-[0-9a-f]+)</instanceId>")
_PENDING, _RUNNING = ("pending", 0), ("running", 16)


def launched(call: Call, reply: Reply) -> None:
    """After RunInstances, make the new instances pending.

    EC2 checks the KMS key of a disk only after the call, and terminates an instance whose key does not exist.
    """
    if (call.service, call.operation) != ("ec2", "RunInstances"):
        return
    from moto.ec2.models.instances import StateReason

    lacks_key = any(
        not there.kms_key(key, call.region)
        for _, key in values_at(call.parameters or {}, "BlockDeviceMappings[].Ebs.KmsKeyId")
    )
    if not lacks_key and not conditions.value("launch-delay"):
        return
    for found in set(_ID.findall(reply.body)):
        instance = moto_backend("ec2", call.region).get_instance(found.decode())
        hold(instance)
        if lacks_key:
            # Source: EC2 user guide, "Troubleshoot instance launch issues".
            instance.terminate()
            code = "Client.InvalidKMSKey.InvalidState"
            instance.state_reason = StateReason(
                f"{code}: The KMS key provided is in an incorrect state", code
            )


def hold(instance: Any) -> None:
    """Keep moto's instance pending for a while; Auto Scaling already counts it as in service."""
    lasts = conditions.seconds("launch-delay", instance.instance_type)
    if not lasts:
        return
    conditions.count("launch-delay")
    _set(instance, *_PENDING)
    timer = threading.Timer(lasts, _run, [instance])
    timer.daemon = True
    timer.start()


def _run(instance: Any) -> None:
    if instance.state == _PENDING[0]:  # it may have been terminated meanwhile
        _set(instance, *_RUNNING)
        reconciler.wake_if_kept()


def _set(instance: Any, name: str, code: int) -> None:
    instance._state.name, instance._state.code = name, code


# RegisterImage: moto drops an AMI's architecture, root device and root size.
_IMAGE_ID = re.compile(rb"<imageId>(ami-[0-9a-f]+)</imageId>")


def registered(call: Call, reply: Reply) -> None:
    """After RegisterImage, set those on the new AMI."""
    is_asked = (call.service, call.operation) == ("ec2", "RegisterImage")
    found = _IMAGE_ID.search(reply.body) if is_asked else None
    if found is None:
        return
    given: Any = call.parameters or {}
    image = moto_backend("ec2", call.region).amis[found[1].decode()]
    image.architecture = given.get("Architecture") or image.architecture
    image.root_device_name = given.get("RootDeviceName") or image.root_device_name
    for disk in given.get("BlockDeviceMappings") or ():
        size = (disk.get("Ebs") or {}).get("VolumeSize")
        if size and disk.get("DeviceName") == image.root_device_name:
            image.ebs_snapshot.volume.size = int(size)
