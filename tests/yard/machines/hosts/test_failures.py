"""Hosts that cannot do what they are for: `failed`, with the reason and what mends it, wherever one looks."""

from __future__ import annotations

import base64
from typing import Any

from tests.yard.machines.hosts.conftest import Site, Vpc

MEND = "python3 scripts/set_up.py machine"
WITHOUT_SSHD = "mount --bind /dev/null /usr/sbin/sshd"  # an ordinary user removes no file of root


def user_data(*lines: str) -> str:
    script = "\n".join(("#!/bin/bash", "systemctl mask --now slipway-node.service", *lines))
    return base64.b64encode(script.encode()).decode()


def start(vpc: Vpc, *lines: str) -> dict[str, Any]:
    vpc.start("nodes", vpc.security_group("members"), 1, UserData=user_data(*lines))
    (host,) = vpc.hosts("nodes")
    return host


def test_a_host_that_lacks_a_program_of_a_unit_is_failed_and_says_what_installs_it(
    site: Site, own_vpc: Vpc
) -> None:
    host = start(own_vpc, WITHOUT_SSHD)
    assert host["state"] == "failed"
    assert host["why"].startswith("/usr/sbin/sshd is not there; install it with")
    assert MEND in host["why"]
    assert site.on(host["name"], "hostname", "-s").out.strip() == host["name"]  # it can still be looked at


def test_a_host_whose_user_data_fails_is_failed_and_says_where_to_read_on(site: Site, own_vpc: Vpc) -> None:
    host = start(own_vpc, "echo the disk is missing", "exit 3")
    assert host["state"] == "failed"
    assert "part-001 ended with 3; what it said: slipway yard logs" in host["why"]
    assert "/var/log/cloud-init-output.log" in host["why"]


def test_a_host_whose_unit_ends_again_and_again_is_failed(site: Site, own_vpc: Vpc) -> None:
    start(own_vpc, "echo nonsense >>/etc/ssh/sshd_config")
    host = site.until(lambda: next(iter(each for each in own_vpc.hosts("nodes") if each["why"]), None))
    assert host["state"] == "failed"
    assert "ssh.service ends as soon as it starts" in host["why"]


def test_ec2_says_of_a_host_that_failed_that_it_is_impaired_and_its_console_says_why(
    site: Site, own_vpc: Vpc
) -> None:
    host = start(own_vpc, WITHOUT_SSHD)
    ec2 = site.client("ec2")
    (status,) = ec2.describe_instance_status(InstanceIds=[host["instance"]])["InstanceStatuses"]
    assert status["InstanceStatus"]["Status"] == "impaired"
    output = ec2.get_console_output(InstanceId=host["instance"])["Output"]
    assert "sshd is not there" in output
