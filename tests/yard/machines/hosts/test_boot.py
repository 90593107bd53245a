"""Hosts boot systemd and cloud-init; units, reboots and shutdowns work there as on EC2."""

from __future__ import annotations

import base64
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from slipway.jobs.cli.cli import cli
from slipway.jobs.words.errors import SlipwayError
from slipway.yard.endpoint import control
from slipway.yard.machines.hosts import boot_ways
from slipway.yard.machines.hosts.planning import real_boot
from slipway.yard.services.imagebuilder.machine import base
from slipway.yard.state import remove_tree
from tests.yard.machines.hosts.conftest import Site, Vpc, mime
from tests.yard.machines.hosts.test_run_command import Commands

TERMINATES = {"InstanceInitiatedShutdownBehavior": "terminate"}
# Ordered after a unit that comes after its own target, as a unit may be that should run after user data.
CIRCLE = """\
[Unit]
After=cloud-final.service
[Service]
Type=oneshot
ExecStart=touch /circle-ran
[Install]
WantedBy=multi-user.target
"""
FAILS = "[Service]\nType=oneshot\nExecStart=/bin/false\n[Install]\nWantedBy=multi-user.target\n"
HOST_KEY = "/run/slipway-node/keys/host/ssh_host_ed25519_key"  # of a node that has joined; not after a boot
FIRST_BOOT = f"""\
#!/bin/bash
set -e
echo once >>/boots
echo 'HostKey {HOST_KEY}' >/etc/ssh/sshd_config.d/slipway.conf
systemctl mask --runtime --now slipway-node.service
systemd-run --unit=soon --on-active=1s --timer-property=AccuracySec=100ms touch /soon-ran
systemctl enable circle.service fails.service
"""


@pytest.fixture(autouse=True, scope="module")
def can_boot(tier: str) -> None:
    if why := boot_ways.obstacle(""):
        pytest.skip(f"no host boots for real here: {why}")


@pytest.fixture(scope="module")
def vpc(site: Site) -> Iterator[Vpc]:
    made = site.vpc()
    yield made
    made.delete()


@pytest.fixture(scope="module")
def host(site: Site, vpc: Vpc) -> str:
    """Boot a host whose units fail in several ways after a reboot."""
    files = {f"{real_boot.UNITS}/circle.service": CIRCLE, f"{real_boot.UNITS}/fails.service": FAILS}
    (name,) = vpc.start("nodes", vpc.security_group("members"), 1, UserData=user_data(FIRST_BOOT, files))
    return name


def user_data(script: str, files: dict[str, str] | None = None) -> str:
    config = {"write_files": [{"path": path, "content": text} for path, text in (files or {}).items()]}
    parts = {"text/cloud-config": f"#cloud-config\n{json.dumps(config)}", "text/x-shellscript": script}
    return base64.b64encode(mime(parts).encode()).decode()


def row(vpc: Vpc) -> dict[str, Any]:
    (found,) = vpc.hosts("nodes")
    return found


def instance(site: Site, identifier: str) -> dict[str, Any]:
    (found,) = site.client("ec2").describe_instances(InstanceIds=[identifier])["Reservations"][0]["Instances"]
    return dict(found)


def status_of(site: Site, identifier: str) -> str:
    (found,) = site.client("ec2").describe_instance_status(InstanceIds=[identifier])["InstanceStatuses"]
    return str(found["InstanceStatus"]["Status"])


def console_of(site: Site, identifier: str) -> str:
    return str(site.client("ec2").get_console_output(InstanceId=identifier)["Output"])


def first_process(site: Site, host: str) -> int:
    """Return the number of the host's systemd on this machine; 0 while there is none."""
    try:
        return int(control(site.yard, "POST", "/enter-host", {"host": host})["process"])
    except SlipwayError:
        return 0


def wait_for_reboot(site: Site, host: str, before: int) -> None:
    site.until(lambda: first_process(site, host) not in (0, before))
    site.settle()


def test_systemd_is_the_first_process_and_cloud_init_reads_ec2s_metadata(
    site: Site, vpc: Vpc, host: str
) -> None:
    assert row(vpc)["boot"] == "systemd"
    assert site.on(host, "cat", "/proc/1/comm").out.strip() == "systemd"
    result = json.loads(site.on(host, "cat", "/run/cloud-init/result.json").out)
    assert (result["v1"]["datasource"], result["v1"]["errors"]) == ("DataSourceEc2", [])
    assert site.on(host, "hostname").out.strip() == host
    assert site.on(host, "systemctl", "is-active", "ssh.service", "cloud-final.service").code == 0


def test_nothing_that_this_machine_starts_is_started_on_a_host(site: Site, vpc: Vpc, host: str) -> None:
    """This machine's databases, timers and mail do not run on a host."""
    links = ("-type", "l", "-name", "*.*", "!", "-lname", "/dev/null")
    listed = site.on(host, "find", real_boot.UNITS, *links, "-printf", "%f\n").out
    ours = {path.rpartition("/")[2] for path in real_boot.units(is_slurm=False)["links"]}
    assert set(listed.split()) <= ours | {"circle.service", "fails.service"}
    assert site.on(host, "ls", "/etc/init.d").code != 0
    assert site.on(host, "systemctl", "is-enabled", "run-rpc_pipefs.mount").out == "masked\n"  # the kernel's


def test_a_timer_of_user_data_runs(site: Site, vpc: Vpc, host: str) -> None:
    site.until(lambda: site.on(host, "test", "-e", "/soon-ran").code == 0)


def test_a_unit_in_etc_is_not_masked_by_the_word_that_masks_one_of_a_package(
    site: Site, vpc: Vpc, host: str
) -> None:
    refused = site.on(host, "systemctl", "mask", "fails.service")
    assert refused.code == 1
    assert "already exists" in refused.errors
    assert site.on(host, "systemctl", "mask", "systemd-tmpfiles-clean.timer").code == 0


def test_a_host_knows_its_own_name_and_no_other_from_the_vpcs_name_server(
    site: Site, vpc: Vpc, host: str
) -> None:
    asked = "import socket; print(socket.gethostbyname('{}'))"
    full = f"{host}.ec2.internal"
    known = site.on(host, "sh", "-c", f'echo >/etc/hosts; python3 -c "{asked.format(full)}"')
    assert known.out.strip() == row(vpc)["address"], known.errors
    unknown = site.on(host, "python3", "-c", asked.format("s3.us-east-1.amazonaws.com"))
    assert "Name or service not known" in unknown.errors


def test_the_console_tells_of_the_boot_and_of_user_data(site: Site, vpc: Vpc, host: str) -> None:
    text = console_of(site, row(vpc)["instance"])
    assert "Reached target" in text
    assert "Created symlink /etc/systemd/system/multi-user.target.wants/circle.service" in text


@pytest.fixture(scope="module")
def rebooted(site: Site, vpc: Vpc, host: str) -> str:
    """Return the host after RebootInstances."""
    identifier, before = row(vpc)["instance"], first_process(site, host)
    site.until(lambda: site.on(host, "test", "-e", "/soon-ran").code == 0)
    site.on(host, "touch", "/tmp/memory")
    site.client("ec2").reboot_instances(InstanceIds=[identifier])
    wait_for_reboot(site, host, before)
    assert row(vpc)["instance"] == identifier
    return host


def test_a_reboot_keeps_the_disk_and_shows_what_only_a_first_boot_did(site: Site, rebooted: str) -> None:
    host = rebooted
    assert site.on(host, "cat", "/boots").out == "once\n"
    assert site.on(host, "test", "-e", "/tmp/memory").code == 1
    assert site.on(host, "systemctl", "is-active", "soon.timer").out.strip() == "inactive"


def test_units_that_are_ordered_in_a_circle_lose_one_and_the_list_of_hosts_says_which(
    site: Site, vpc: Vpc, rebooted: str
) -> None:
    """Both are still called enabled. This is tried after the reboot, because user data wrote one of them."""
    assert site.on(rebooted, "systemctl", "is-enabled", "circle.service").out.strip() == "enabled"
    has_run = site.on(rebooted, "test", "-e", "/circle-ran").code == 0
    lost = "cloud-final.service" if has_run else "circle.service"
    assert f"{lost} was not started: systemd found it ordered in a circle" in row(vpc)["why"]
    assert "ordering cycle" in console_of(site, row(vpc)["instance"])


def test_a_unit_that_fails_is_named_and_ec2s_checks_pass_all_the_same(
    site: Site, vpc: Vpc, rebooted: str
) -> None:
    found = row(vpc)
    assert found["state"] == "failed"
    assert "fails.service failed; what it said: journalctl -u fails.service" in found["why"]
    assert status_of(site, found["instance"]) == "ok"


def test_the_command_line_reboots_a_host(site: Site, own_vpc: Vpc, monkeypatch: pytest.MonkeyPatch) -> None:
    quiet = user_data("#!/bin/sh\n")
    (host,) = own_vpc.start("nodes", own_vpc.security_group("members"), 1, UserData=quiet)
    monkeypatch.setenv("SLIPWAY_YARD_HOME", str(site.yard.home))
    before = first_process(site, host)
    told = CliRunner().invoke(cli, ["yard", "reboot", host])
    assert f"host {host} reboots" in told.stderr
    wait_for_reboot(site, host, before)


def test_sshd_of_a_node_that_was_rebooted_waits_for_its_key_and_does_not_fail(
    site: Site, vpc: Vpc, rebooted: str
) -> None:
    state = ("systemctl", "is-active", "ssh.service")
    assert site.on(rebooted, *state).out == "inactive\n"
    assert "ssh.service" not in row(vpc)["why"]
    join = f"mkdir -p {Path(HOST_KEY).parent} && ssh-keygen -q -N '' -t ed25519 -f {HOST_KEY}"
    site.on(rebooted, "sh", "-c", f"{join} && systemctl reload-or-restart ssh.service")
    assert site.on(rebooted, *state).out == "active\n"


def test_systems_manager_reaches_a_host_of_which_a_unit_failed(site: Site, vpc: Vpc, rebooted: str) -> None:
    """The host's agent is another service of the system, and does not depend on all others."""
    commands = Commands(site, row(vpc)["instance"])
    (known,) = commands.ssm.describe_instance_information()["InstanceInformationList"]
    assert (known["InstanceId"], known["PingStatus"]) == (commands.instance, "Online")
    ran = commands.ended(commands.shell("systemctl is-failed fails.service"))
    assert ran["StandardOutputContent"] == "failed\n"


def test_a_host_that_shuts_itself_down_is_replaced_by_its_group(site: Site, own_vpc: Vpc) -> None:
    own_vpc.start("nodes", own_vpc.security_group("members"), 1, UserData=user_data("#!/bin/sh\n"))
    first = row(own_vpc)
    site.on(first["name"], "systemctl", "poweroff")
    site.until(lambda: {host["instance"] for host in own_vpc.hosts("nodes")} - {first["instance"]})
    assert instance(site, first["instance"])["State"]["Name"] == "terminated"


@pytest.mark.parametrize(
    ("more", "state"), [({}, "stopped"), (TERMINATES, "terminated")], ids=["stop", "terminate"]
)
def test_an_instance_that_shuts_itself_down_stops_or_ends_as_it_declares(
    site: Site, own_vpc: Vpc, more: dict[str, Any], state: str
) -> None:
    own_vpc.start("nodes", own_vpc.security_group("members"), 1, UserData=user_data("#!/bin/sh\n"), **more)
    found = row(own_vpc)
    site.client("autoscaling").suspend_processes(
        AutoScalingGroupName=own_vpc.groups[0], ScalingProcesses=["ReplaceUnhealthy", "Launch"]
    )
    site.on(found["name"], "systemctl", "poweroff")
    site.until(lambda: instance(site, found["instance"])["State"]["Name"] == state)
    reason = instance(site, found["instance"])["StateReason"]
    assert reason["Code"] == "Client.InstanceInitiatedShutdown"


def test_a_host_that_stops_half_way_is_impaired_and_replaced(site: Site, own_vpc: Vpc) -> None:
    """A file system that cannot be mounted stops the boot, as on EC2."""
    own_vpc.start("nodes", own_vpc.security_group("members"), 1, UserData=user_data("#!/bin/sh\n"))
    first = row(own_vpc)
    site.on(first["name"], "sh", "-c", "echo 'none /data tmpfs size=nonsense 0 0' >>/etc/fstab")
    site.client("ec2").reboot_instances(InstanceIds=[first["instance"]])
    site.until(lambda: {host["instance"] for host in own_vpc.hosts("nodes")} - {first["instance"]})
    assert instance(site, first["instance"])["State"]["Name"] == "terminated"
    assert "it stopped in systemd's emergency mode" in (site.yard.home / "server.log").read_text("utf-8")


def test_a_host_boots_the_system_of_the_machine_image_that_was_baked(site: Site, own_vpc: Vpc) -> None:
    """Boot plain Debian as a bake begins with it; its packages decide what it starts."""
    archive = base.kept_archive()
    if not archive.exists():
        pytest.skip("no machine image was baked on this machine yet, so there is no Debian to begin with")
    image = site.client("ec2").register_image(Name="debian", RootDeviceName="/dev/xvda")["ImageId"]
    root = site.yard.home / "machine-images" / image / "root"
    base.unpack(archive, root)
    script = user_data("#!/bin/sh\necho ran >/user-data-ran\n")
    own_vpc.start("nodes", own_vpc.security_group("members"), 1, image, UserData=script)
    found = row(own_vpc)
    assert (found["root"], found["boot"], found["state"]) == ("machine image", "systemd", "running"), found
    assert site.on(found["name"], "cat", "/user-data-ran").out == "ran\n"
    assert site.on(found["name"], "systemctl", "is-enabled", "apt-daily.timer").out == "enabled\n"
    assert not (root / "user-data-ran").exists()
    remove_tree(root)


def test_a_host_counts_the_time_since_its_own_boot(site: Site, vpc: Vpc, host: str) -> None:
    """A node that ends itself some minutes after its boot reads this."""
    up_s = float(site.on(host, "cat", "/proc/uptime").out.split()[0])
    assert up_s < float(Path("/proc/uptime").read_text().split()[0]) - 1


def test_a_host_is_entered_only_while_its_system_is_there(site: Site, vpc: Vpc, host: str) -> None:
    """A command is never run on this machine in place of the host."""
    said = site.on(host, "readlink", "/proc/self/ns/pid").out.strip()
    own = subprocess.run(["readlink", "/proc/self/ns/pid"], capture_output=True, text=True, check=True)
    assert said.startswith("pid:")
    assert said != own.stdout.strip()
