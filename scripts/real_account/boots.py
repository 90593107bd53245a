"""Reboots a machine of the MPI cluster, and tells one boot of it from the next."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from scripts.real_account.account import Account, CommandFailed
from scripts.real_account.clusters import MPI

Node = Mapping[str, Any]  # as `slipway status --nodes` shows it

# Of a boot, whatever runs the machine: on AWS the kernel's own, in a yard when the first process started.
_BOOT_ID = "cat /proc/sys/kernel/random/boot_id"
_FIRST_PROCESS = "cut -d' ' -f22 /proc/1/stat"
_ANSWER_MINUTES = 3


class CannotReboot(Exception):
    """This yard has no machine that could."""


def reboot(account: Account, node: Node) -> None:
    if not account.is_yard:
        account.order("ec2", "RebootInstances", InstanceIds=[instance_of(account, node)])
        return
    try:
        account.run("slipway", "yard", "reboot", node["name"])
    except CommandFailed as error:
        raise CannotReboot(f"this yard cannot reboot {node['name']}: {error}") from None


def boot_of(account: Account, node: Node) -> str:
    """Return what is another after each boot; nothing while the machine does not answer."""
    try:
        if account.is_yard:
            told = account.run("slipway", "yard", "ssh", node["name"], "--", "sh", "-c", _FIRST_PROCESS)
            return told.strip()
        return _run_on(account, instance_of(account, node), _BOOT_ID)
    except CommandFailed:
        return ""


def instance_of(account: Account, node: Node) -> str:
    """Find the instance by the private name that the cluster knows it by."""
    filters = [{"Name": "tag:slipway:cluster", "Values": [MPI.name]}]
    answer = account.ask("ec2", "DescribeInstances", Filters=filters)
    for reservation in answer["Reservations"]:
        for instance in reservation["Instances"]:
            name = str(instance.get("PrivateDnsName", "")).partition(".")[0]
            if name and name == str(node["name"]).partition(".")[0]:
                return str(instance["InstanceId"])
    raise CommandFailed(f"no instance of {MPI.name} is called {node['name']}")


def _run_on(account: Account, instance: str, command: str) -> str:
    """Run a command through Systems Manager, as every job of the cluster is run."""
    from botocore.exceptions import ClientError

    try:
        sent = account.order(
            "ssm",
            "SendCommand",
            InstanceIds=[instance],
            DocumentName="AWS-RunShellScript",
            Parameters={"commands": [command]},
        )
    except ClientError as error:  # while it boots, it is not registered
        raise CommandFailed(str(error)) from None
    told: dict[str, Any] = {}

    def is_over() -> bool:
        """An invocation is unknown for a moment after it was ordered."""
        where = {"CommandId": sent["Command"]["CommandId"], "InstanceId": instance}
        with suppress(ClientError):
            told.update(account.ask("ssm", "GetCommandInvocation", **where))
        return told.get("Status", "Pending") not in ("Pending", "InProgress", "Delayed")

    account.wait_until("the machine answers", is_over, _ANSWER_MINUTES)
    return str(told["StandardOutputContent"]).strip() if told["Status"] == "Success" else ""
