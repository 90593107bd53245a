"""An instance is pending before it runs, for as long as the fault `launch-delay` says."""

from __future__ import annotations

import re
import threading
from typing import Any

from slipway.yard.chaos import conditions
from slipway.yard.endpoint import ACCOUNT
from slipway.yard.gateway.protocols import Call, Reply
from slipway.yard.machines.hosts import reconciler

_ID = re.compile(rb"<instanceId>(i-[0-9a-f]+)</instanceId>")
_PENDING, _RUNNING = ("pending", 0), ("running", 16)


def launched(call: Call, reply: Reply) -> None:
    """Hear of an answered call; what RunInstances has made is pending first."""
    if (call.service, call.operation) == ("ec2", "RunInstances") and conditions.value("launch-delay"):
        from moto.ec2.models import ec2_backends

        backend = ec2_backends[ACCOUNT][call.region]
        for found in set(_ID.findall(reply.body)):
            hold(backend.get_instance(found.decode()))


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
