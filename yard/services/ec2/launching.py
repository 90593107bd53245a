"""An instance is pending before it runs, for as long as the fault `launch-delay` says.

One whose disk has a key that is not there is taken by EC2, and ends: it looks for the key afterwards.
"""

from __future__ import annotations

import re
import threading
from typing import Any

from slipway.yard.chaos import conditions
from slipway.yard.gateway.protocols import Call, Reply
from slipway.yard.machines.hosts import reconciler
from slipway.yard.services.refusals import there
from slipway.yard.services.refusals.table import values_at

_ID = re.compile(rb"<instanceId>(i-[0-9a-f]+)</instanceId>")
_PENDING, _RUNNING = ("pending", 0), ("running", 16)


def launched(call: Call, reply: Reply) -> None:
    """Hear of an answered call; what RunInstances has made is pending first."""
    if (call.service, call.operation) != ("ec2", "RunInstances"):
        return
    lacks_key = any(
        not there.kms_key(key, call.region)
        for _, key in values_at(call.parameters or {}, "BlockDeviceMappings[].Ebs.KmsKeyId")
    )
    if not lacks_key and not conditions.value("launch-delay"):
        return
    for found in set(_ID.findall(reply.body)):
        instance = there.ec2(call.region).get_instance(found.decode())
        hold(instance)
        if lacks_key:
            _end_without_key(instance)


def _end_without_key(instance: Any) -> None:
    """Source: EC2 user guide, "Troubleshoot instance launch issues"."""
    from moto.ec2.models.instances import StateReason

    instance.terminate()
    code = "Client.InvalidKMSKey.InvalidState"
    instance.state_reason = StateReason(f"{code}: The KMS key provided is in an incorrect state", code)


def hold(instance: Any) -> None:
    """Keep moto's instance pending for a while. Auto Scaling counts it as in service meanwhile."""
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
