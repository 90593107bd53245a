"""On hosts with an imitated boot, a unit that cannot work is `failed`, with the reason and the remedy."""

from __future__ import annotations

import base64
import shlex
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from slipway.jobs.platforms.mpi.node import job_credentials
from slipway.yard.endpoint import control
from slipway.yard.machines.hosts import boot_ways
from tests.yard.machines.hosts.conftest import Site, Vpc, new_site

MEND = "python3 scripts/set_up.py machine"
WITHOUT_SSHD = "mount --bind /dev/null /usr/sbin/sshd"  # an ordinary user removes no file of root


@pytest.fixture(scope="module")
def site(tier: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A yard that imitates every boot."""
    yield from new_site(tmp_path_factory.mktemp("imitated"), {boot_ways.BOOT_VARIABLE: boot_ways.IMITATED})


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
    assert site.on(host["name"], "hostname", "-s").out.strip() == host["name"]  # it still answers


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


def test_a_host_without_a_system_of_its_own_is_not_rebooted_and_says_why(site: Site, own_vpc: Vpc) -> None:
    host = start(own_vpc)
    assert (host["state"], host["boot"]) == ("running", "imitated")
    with pytest.raises(ClientError, match="its boot is imitated: SLIPWAY_YARD_BOOT asks for it") as refused:
        site.client("ec2").reboot_instances(InstanceIds=[host["instance"]])
    assert refused.value.response["Error"]["Code"] == "UnsupportedOperation"


def test_metadata_is_closed_to_jobs_where_boot_is_imitated_too(site: Site, own_vpc: Vpc, tier: str) -> None:
    if tier != "root":
        pytest.skip("there a host has one user, so nothing can be kept from its jobs; `yard status` says so")
    host = start(own_vpc)["name"]
    as_job = ("runuser", "-u", "slipway", "--")
    ask = ("curl", "-s", "-X", "PUT", "http://169.254.169.254/latest/api/token", "-o", "/dev/null")
    assert site.on(host, *as_job, *ask).code == 0
    closed = site.on(host, "sh", "-c", f"printf %s {shlex.quote(job_credentials.rules())} | nft -f -")
    assert closed.code == 0, closed.errors
    assert site.on(host, *as_job, *ask).code != 0
    assert site.on(host, *ask).code == 0


def test_status_says_that_boots_are_imitated_and_why(site: Site) -> None:
    told = "\n".join(control(site.yard, "GET", "/status")["hosts"])
    assert "boot: by an imitation of systemd and cloud-init: SLIPWAY_YARD_BOOT asks for it" in told
    assert "left out: systemd and its journal" in told
