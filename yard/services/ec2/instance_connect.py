"""EC2 Instance Connect: a public key that an instance's sshd finds in the metadata for a minute.

On AWS the key is signed, and a program that Ubuntu's and Amazon Linux's images bring checks that. Here the
hosts' own program takes the key as it is (yard/machines/hosts/planning/own_files.py).
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping
from typing import Any

from slipway.yard.errors import ApiError
from slipway.yard.machines.hosts import host_store, metadata

# User guide, "Connect to a Linux instance using EC2 Instance Connect": RSA and ED25519.
_KEY = re.compile(r"ssh-(rsa|ed25519) [A-Za-z0-9+/]+={0,2}( [ -~]*)?\s*")


def call(operation: str, parameters: Mapping[str, Any], region: str) -> dict[str, Any]:
    assert operation == "SendSSHPublicKey", "the registry names no other"
    host = host_store.hosts.get(parameters["InstanceId"])
    if host is None or host.instance.region != region:
        raise ApiError("EC2InstanceNotFoundException", f"Instance {parameters['InstanceId']} not found")
    if host_store.is_down(host):
        raise ApiError("EC2InstanceStateInvalidException", "Instance is not running")
    if not _KEY.fullmatch(parameters["SSHPublicKey"]):
        raise ApiError("InvalidArgsException", "SSHPublicKey is not an RSA or ED25519 key")
    metadata.push_key(host.instance.id, parameters["InstanceOSUser"], parameters["SSHPublicKey"].strip())
    return {"RequestId": str(uuid.uuid4()), "Success": True}
