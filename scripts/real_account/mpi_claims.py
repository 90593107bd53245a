"""Prove claims about MPI clusters: two small nodes run a job, reboot and get lost; an alarm is mailed."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

from scripts.real_account.account import Account, CommandFailed
from scripts.real_account.claims import Proof, judged, not_tried, runs_to_its_end
from scripts.real_account.clusters import MPI, NODES

_ON = ("--on", MPI.name, "--nodes", str(NODES))
_SAMPLE = ("--set", "sample_megabytes=1", "--set", "duplicates=1")
# A job that never ends by itself, and saves often.
_ENDLESS = {
    "size": "tiny",
    "precision": "fp32",
    "micro_batch": "4",
    "steps": "100000",
    "checkpoint_every": "10",
    "log_every": "10",
}
Node = Mapping[str, Any]  # as `slipway status --nodes` shows it

# Print an id of the boot: on AWS the kernel's, in a yard the start time of the first process.
_BOOT_ID = "cat /proc/sys/kernel/random/boot_id"
_FIRST_PROCESS = "cut -d' ' -f22 /proc/1/stat"
_ANSWER_MINUTES = 3
_START_MINUTES = 20
_READY_MINUTES = 10


def job(account: Account) -> Proof:
    """Prove that two nodes start, answer an all-reduce and run a job to its end."""
    return runs_to_its_end(account, "acceptance", *_ON, *_SAMPLE)


def reboot(account: Account) -> Proof:
    """Prove that a rebooted node mounts the shared files again and takes a job."""
    nodes = _nodes(account)
    if len(nodes) < NODES:
        return not_tried(f"only {len(nodes)} nodes run, so none can be rebooted")
    node = nodes[-1]
    before = boot_of(account, node)
    if not before:
        return not_tried(f"{node['name']} does not say which boot it is in")
    try:
        reboot_node(account, node)
    except CannotReboot as why:
        return not_tried(str(why))
    account.wait_until(
        f"{node['name']} starts again",
        lambda: boot_of(account, node) not in ("", before),
        _READY_MINUTES,
    )
    account.wait_until(
        "all nodes answer after the reboot",
        lambda: sum(bool(node["answered"]) for node in _nodes(account)) >= NODES,
        _READY_MINUTES,
    )
    # The record that a node answers is older than its reboot, so the first jobs may come too early.
    words = ("slipway", "submit", "prepare_bert", *_ON, *_SAMPLE, "--name", "rebooted", "--again", "--follow")
    account.wait_until("a job succeeds on all nodes", lambda: account.succeeds(*words), _READY_MINUTES)
    run = account.data("slipway", "status", "rebooted")
    return judged(run["state"] == "succeeded", f"after the reboot of one node, {run['name']} {run['state']}")


def lost_node(account: Account) -> Proof:
    """Prove that a job that loses a node fails everywhere, names the node and ends with its exit code."""
    settings = [word for key, value in _ENDLESS.items() for word in ("--set", f"{key}={value}")]
    account.run("slipway", "submit", "bert_pretrain", *_ON, *settings, "--name", "loses")
    account.wait_until(
        "the job saves", lambda: "saved step 10" in account.run("slipway", "logs", "loses"), _START_MINUTES
    )
    lost = _nodes(account)[-1]
    # As AWS would if its hardware fails.
    if account.is_yard:
        account.run("slipway", "yard", "kill-node", lost["name"])
    else:
        account.order("ec2", "TerminateInstances", InstanceIds=[instance_of(account, lost)])
    account.wait_until(
        "the job ends",
        lambda: account.data("slipway", "status", "loses")["state"] == "failed",
        _READY_MINUTES,
    )
    run = account.data("slipway", "status", "loses")
    said = account.run("slipway", "explain", "loses")
    return judged(
        run["exit_code"] == 85 and lost["name"] in said,
        f"exit code {run['exit_code']}; {said.splitlines()[0]}",
    )


def _nodes(account: Account) -> list[dict[str, Any]]:
    nodes: list[dict[str, Any]] = account.data("slipway", "status", "--on", MPI.name, "--nodes")
    return nodes


class CannotReboot(Exception):
    """Reports that this yard has no machine that can reboot."""


def reboot_node(account: Account, node: Node) -> None:
    if not account.is_yard:
        account.order("ec2", "RebootInstances", InstanceIds=[instance_of(account, node)])
        return
    try:
        account.run("slipway", "yard", "reboot", node["name"])
    except CommandFailed as error:
        raise CannotReboot(f"this yard cannot reboot {node['name']}: {error}") from None


def boot_of(account: Account, node: Node) -> str:
    """Return an id that changes with each boot, or '' while the machine does not answer."""
    try:
        if account.is_yard:
            told = account.run("slipway", "yard", "ssh", node["name"], "--", "sh", "-c", _FIRST_PROCESS)
            return told.strip()
        return _run_on(account, instance_of(account, node), _BOOT_ID)
    except CommandFailed:
        return ""


def instance_of(account: Account, node: Node) -> str:
    """Return the id of the instance with this node's private name."""
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
        """Return True once the command has ended; for a moment after it was sent it is unknown."""
        where = {"CommandId": sent["Command"]["CommandId"], "InstanceId": instance}
        with suppress(ClientError):
            told.update(account.ask("ssm", "GetCommandInvocation", **where))
        return told.get("Status", "Pending") not in ("Pending", "InProgress", "Delayed")

    account.wait_until("the machine answers", is_over, _ANSWER_MINUTES)
    return str(told["StandardOutputContent"]).strip() if told["Status"] == "Success" else ""


# An alarm reaches a person by mail at the given address.
_CONFIRM_MINUTES = 15
_DELIVER_MINUTES = 15


def reaches_the_address(account: Account) -> Proof:
    alarm, topic = _alarm(account)
    if not alarm:
        return not_tried(f"{MPI.name} has no alarm that mails anybody")
    if not _confirmed(account, topic):
        return not_tried(
            f"nobody confirmed the subscription of {account.email} within {_CONFIRM_MINUTES} minutes"
        )
    account.order(
        "cloudwatch", "SetAlarmState", AlarmName=alarm, StateValue="ALARM", StateReason="slipway acceptance"
    )
    try:
        account.wait_until(
            "SNS delivers the mail", lambda: _delivered(account, topic, alarm), _DELIVER_MINUTES
        )
    except CommandFailed:
        return judged(False, f"{alarm} was set to ALARM, and no mail to {account.email} was delivered")
    return judged(True, f"{alarm} was set to ALARM, and its mail to {account.email} was delivered")


def _alarm(account: Account) -> tuple[str, str]:
    """Return an alarm of the cluster that notifies a topic, and the topic."""
    for alarm in account.ask("cloudwatch", "DescribeAlarms")["MetricAlarms"]:
        topics = [action for action in alarm["AlarmActions"] if action.startswith("arn:aws:sns:")]
        if topics and MPI.name in f"{alarm['AlarmName']} {topics[0]}":
            return str(alarm["AlarmName"]), topics[0]
    return "", ""


def _confirmed(account: Account, topic: str) -> bool:
    """Wait until a person confirms the subscription in the mail; in a yard, confirm it."""
    if account.is_yard:
        account.run("slipway", "yard", "mail", "--confirm", account.email)
    else:
        print(
            f"confirm now: the mail 'AWS Notification - Subscription Confirmation' to {account.email}",
            flush=True,
        )
    try:
        account.wait_until(
            "the subscription is confirmed", lambda: _is_confirmed(account, topic), _CONFIRM_MINUTES
        )
    except CommandFailed:
        return False
    return True


def _is_confirmed(account: Account, topic: str) -> bool:
    answer = account.ask("sns", "ListSubscriptionsByTopic", TopicArn=topic)
    return any(
        subscription["Endpoint"] == account.email and subscription["SubscriptionArn"].startswith("arn:")
        for subscription in answer["Subscriptions"]
    )


def _delivered(account: Account, topic: str, alarm: str) -> bool:
    if account.is_yard:
        mails = account.data("slipway", "yard", "mail")
        return any(
            account.email in str(mail["to"]) and alarm in f"{mail['subject']} {mail['text']}"
            for mail in mails
        )
    now = datetime.now(UTC)
    answer = account.ask(
        "cloudwatch",
        "GetMetricStatistics",
        Namespace="AWS/SNS",
        MetricName="NumberOfNotificationsDelivered",
        Dimensions=[{"Name": "TopicName", "Value": topic.rpartition(":")[2]}],
        StartTime=now - timedelta(minutes=_DELIVER_MINUTES),
        EndTime=now,
        Period=60,
        Statistics=["Sum"],
    )
    return any(point["Sum"] > 0 for point in answer["Datapoints"])
