"""What RegisterImage says of an AMI and moto forgets: its architecture, root device and root size."""

from __future__ import annotations

import re
from typing import Any

from slipway.yard.gateway.protocols import Call, Reply
from slipway.yard.moto_backends import moto_backend

_ID = re.compile(rb"<imageId>(ami-[0-9a-f]+)</imageId>")


def registered(call: Call, reply: Reply) -> None:
    """Hear of an answered call, and keep what a new AMI is."""
    found = _ID.search(reply.body) if (call.service, call.operation) == ("ec2", "RegisterImage") else None
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
