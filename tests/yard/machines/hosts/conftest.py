"""Fixtures: a yard with hosts on this machine's best tier of isolation; without one, tests are skipped."""

from __future__ import annotations

import base64
import json
import os
import subprocess
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from slipway.yard import process
from slipway.yard.endpoint import control
from slipway.yard.machines.hosts import enter
from slipway.yard.machines.hosts.instances import REPLACE_VARIABLE
from slipway.yard.machines.isolation.tiers import best_tier
from tests.waiting import until
from tests.yard.accounts import raise_quotas, stand_in
from tests.yard.conftest import RunningYard

PATIENCE_S = 90.0
IMAGE = "resolve:ssm:/slipway/amis/cpu-mpi/id"  # a stand-in: nothing is baked
METADATA = "http://169.254.169.254/latest"
TOKEN = ("-X", "PUT", "-H", "X-aws-ec2-metadata-token-ttl-seconds: 60", f"{METADATA}/api/token")
FILES = {"kind": "efs", "id": "fs-0123456789abcdef0", "path": "/shared"}
# Stands in for one of our nodes: it joins no cluster, and has keys with which the hosts let each other in.
BOOT = """\
#!/bin/bash
set -e
systemctl mask --now --runtime slipway-node.service
mountpoint -q /shared || { mkdir /shared && mount -t efs fs-0123456789abcdef0:/ /shared; }
for home in /root ~slipway; do
  install -d -m 700 "$home/.ssh"
  install -m 600 /etc/trial/key "$home/.ssh/id_ed25519"
  cp /etc/trial/key.pub "$home/.ssh/authorized_keys"
  printf '%s\\n' 'BatchMode yes' 'ConnectTimeout 1' 'StrictHostKeyChecking no' 'LogLevel ERROR' \\
    >"$home/.ssh/config"
done
chown -R slipway: ~slipway || true # without root there is one user, whose it is already
systemd-run --unit=trial --on-unit-active=5min true
sleep infinity & # what boot leaves running holds nothing up
echo "user data ran on $(hostname)"
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    code: int
    out: str
    errors: str


@dataclass(slots=True, kw_only=True)
class Site:
    """Hold one yard, and what the tests make in it."""

    yard: RunningYard
    key: Path
    made: int = 0
    regions: list[str] = field(default_factory=list)

    def client(self, service: str) -> Any:
        return self.yard.client(service)

    def vpc(self) -> Vpc:
        self.made += 1
        ec2 = self.client("ec2")
        vpc = ec2.create_vpc(CidrBlock=f"10.{40 + self.made}.0.0/16")["Vpc"]["VpcId"]
        subnet = ec2.create_subnet(VpcId=vpc, CidrBlock=f"10.{40 + self.made}.0.0/24")["Subnet"]["SubnetId"]
        return Vpc(site=self, number=self.made, id=vpc, subnet=subnet)

    def settle(self) -> None:
        """Wait for hosts that start and for those that end."""
        self.until(lambda: control(self.yard, "POST", "/await-hosts", {"timeout_s": 8}))

    def hosts(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = control(self.yard, "GET", "/hosts")
        return found

    def on(self, host: str, *words: str) -> Said:
        """Run a command on the host, without a shell."""
        door = control(self.yard, "POST", "/enter-host", {"host": host})
        entry = enter.enter_command(door, words)
        done = subprocess.run(
            entry.argv,
            env=door["environment"],
            pass_fds=entry.descriptors,
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_S,
        )
        for descriptor in entry.descriptors:
            os.close(descriptor)
        return Said(code=done.returncode, out=done.stdout, errors=done.stderr)

    def header(self, host: str) -> str:
        """Return the header with which the host may ask its metadata."""
        return f"X-aws-ec2-metadata-token: {self.on(host, 'curl', '-s', *TOKEN).out}"

    def metadata(self, host: str, path: str) -> str:
        return self.on(host, "curl", "-s", "-H", self.header(host), f"{METADATA}/meta-data/{path}").out

    def until(self, holds: Callable[[], Any]) -> Any:
        """Let the yard's own actions happen soon."""

        def found() -> Any:
            return holds() or (control(self.yard, "POST", "/await-hosts", {"timeout_s": 1}) and None)

        return until(found, lambda: f"it never came: {self.hosts()}", patience_s=PATIENCE_S)


@dataclass(slots=True, kw_only=True)
class Vpc:
    site: Site
    number: int
    id: str
    subnet: str
    groups: list[str] = field(default_factory=list)

    def security_group(self, name: str) -> str:
        ec2 = self.site.client("ec2")
        return str(ec2.create_security_group(GroupName=name, Description=name, VpcId=self.id)["GroupId"])

    def let_in(self, group: str, source: str, port: int | None = None) -> None:
        self.site.client("ec2").authorize_security_group_ingress(
            GroupId=group, IpPermissions=[permission(source, port)]
        )
        self.site.settle()

    def shut_out(self, group: str, source: str, port: int | None = None) -> None:
        self.site.client("ec2").revoke_security_group_ingress(
            GroupId=group, IpPermissions=[permission(source, port)]
        )
        self.site.settle()

    def start(self, name: str, security_group: str, nodes: int, image: str = IMAGE, **more: Any) -> list[str]:
        """Make a group of hosts; return their names once booted. `more` goes into the launch template."""
        ec2, scaling = self.site.client("ec2"), self.site.client("autoscaling")
        unique = f"{name}-{self.number}"
        data = {
            "ImageId": image,
            "InstanceType": "c6i.large",
            "NetworkInterfaces": [{"DeviceIndex": 0, "Groups": [security_group]}],
            "UserData": base64.b64encode(user_data(self.site.key).encode()).decode(),
            **more,
        }
        ec2.create_launch_template(LaunchTemplateName=unique, LaunchTemplateData=data)
        scaling.create_auto_scaling_group(
            AutoScalingGroupName=unique,
            MinSize=0,
            MaxSize=4,
            DesiredCapacity=nodes,
            VPCZoneIdentifier=self.subnet,
            LaunchTemplate={"LaunchTemplateName": unique},
            Tags=[{"Key": "slipway:cluster", "Value": unique, "PropagateAtLaunch": True}],
        )
        self.groups.append(unique)
        self.site.settle()
        return [host["name"] for host in self.hosts(name)]

    def hosts(self, name: str) -> list[dict[str, Any]]:
        return [host for host in self.site.hosts() if host["cluster"] == f"{name}-{self.number}"]

    def delete(self) -> None:
        for group in self.groups:
            self.site.client("autoscaling").delete_auto_scaling_group(
                AutoScalingGroupName=group, ForceDelete=True
            )
        self.site.settle()


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """Start two members of one security group, and one host that is not a member."""

    vpc: Vpc
    group: str
    outsiders: str
    members: tuple[str, str]
    outsider: str

    def address(self, name: str) -> str:
        return str(self._host(name)["address"])

    def instance(self, name: str) -> str:
        return str(self._host(name)["instance"])

    def _host(self, name: str) -> dict[str, Any]:
        return next(host for host in self.vpc.site.hosts() if host["name"] == name)


def permission(source: str, port: int | None) -> dict[str, Any]:
    ports = {"IpProtocol": "tcp", "FromPort": port, "ToPort": port} if port else {"IpProtocol": "-1"}
    return {**ports, "UserIdGroupPairs": [{"GroupId": source}]}


def user_data(key: Path) -> str:
    """Write user data as infra/patterns/nodes/launch_template.py does: files, then a script."""
    files = {
        "/etc/slipway/node.json": json.dumps({"files": FILES}),
        "/etc/trial/key": key.read_text(encoding="utf-8"),
        "/etc/trial/key.pub": Path(f"{key}.pub").read_text(encoding="utf-8"),
    }
    config = "#cloud-config\nwrite_files:\n" + "".join(map(_entry, files, files.values()))
    return mime({"text/cloud-config": config, "text/x-shellscript": BOOT})


def mime(parts: Mapping[str, str]) -> str:
    """Return a MIME message of these parts, by their types."""
    body = "".join(f'--X\nContent-Type: {kind}; charset="utf-8"\n\n{text}\n' for kind, text in parts.items())
    return f'MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary="X"\n\n{body}--X--\n'


def _entry(path: str, text: str) -> str:
    lines = "".join(f"    {line}\n" for line in text.splitlines())
    return f'- path: {path}\n  permissions: "0600"\n  content: |\n{lines}'


@pytest.fixture(scope="session")
def tier() -> str:
    if not best_tier().isolated:
        pytest.skip("this machine can make no namespaces, neither as root nor as an ordinary user")
    return best_tier().name


@pytest.fixture(scope="session")
def site(tier: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Start a yard that replaces dead hosts at once."""
    yield from new_site(tmp_path_factory.mktemp("hosts"), {REPLACE_VARIABLE: "0.1"})


def new_site(folder: Path, settings: Mapping[str, str]) -> Iterator[Site]:
    key = folder / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in settings.items():
            patch.setenv(name, value)
        started = process.up(folder=folder / "home")
    yard = RunningYard(endpoint=started.state.endpoint, home=folder / "home")
    raise_quotas(yard)
    stand_in(yard)
    yield Site(yard=yard, key=key)
    process.down(folder=folder / "home")


@pytest.fixture(scope="session")
def cluster(site: Site) -> Cluster:
    vpc = site.vpc()
    group, outsiders = vpc.security_group("members"), vpc.security_group("outsiders")
    vpc.let_in(group, group)
    first, second = vpc.start("nodes", group, 2)
    (outsider,) = vpc.start("outsiders", outsiders, 1)
    return Cluster(vpc=vpc, group=group, outsiders=outsiders, members=(first, second), outsider=outsider)


@pytest.fixture
def own_vpc(site: Site) -> Iterator[Vpc]:
    """For tests whose hosts die."""
    vpc = site.vpc()
    yield vpc
    vpc.delete()
