"""The units around ours on a node, as facts of their vendors: what waits for what, and what wants what.

Ubuntu 22.04, 24.04 and Debian 12 agree in these lines. Sources: cloud-init 22.4 and 26, its `systemd/`;
amazon-ecs-agent 1.105.1, `packaging/generic-deb-integrated/debian/ecs.service`; the packages of Docker,
containerd and OpenSSH. systemd's own targets are those of this machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

Section = Mapping[str, str]

_RUN = "/bin/true"
_INSTALL = {"WantedBy": "wants", "RequiredBy": "requires"}
# Name: the lines of [Unit], and what wants it once its package is installed.
CLOUD_INIT: Mapping[str, tuple[Section, str]] = {
    "cloud-init-local.service": (
        {
            "DefaultDependencies": "no",
            "Wants": "network-pre.target",
            "After": "systemd-remount-fs.service",
            "Before": "network-pre.target shutdown.target sysinit.target",
            "Conflicts": "shutdown.target",
        },
        "cloud-init.target",
    ),
    "cloud-init.service": (
        {
            "DefaultDependencies": "no",
            "Wants": "cloud-init-local.service sshd.service",
            "After": "cloud-init-local.service systemd-networkd-wait-online.service networking.service",
            "Before": "network-online.target sshd.service sysinit.target shutdown.target "
            "systemd-user-sessions.service",
            "Conflicts": "shutdown.target",
        },
        "cloud-init.target",
    ),
    "cloud-config.service": (
        {
            "After": "network-online.target cloud-config.target snapd.seeded.service",
            "Wants": "network-online.target cloud-config.target",
        },
        "cloud-init.target",
    ),
    "cloud-final.service": (
        {
            "After": "network-online.target time-sync.target cloud-config.service rc-local.service "
            "multi-user.target",
            "Before": "apt-daily.service",
            "Wants": "network-online.target cloud-config.service",
        },
        "cloud-init.target",
    ),
    "cloud-config.target": (
        {
            "Wants": "cloud-init-local.service cloud-init.service",
            "After": "cloud-init-local.service cloud-init.service",
        },
        "",
    ),
    # Its generator lets multi-user.target want it, at each boot for which it finds a data source.
    "cloud-init.target": ({"After": "multi-user.target"}, "multi-user.target"),
}
DOCKER: Mapping[str, tuple[Section, str]] = {
    "containerd.service": ({"After": "network.target local-fs.target"}, "multi-user.target"),
    "docker.socket": ({}, "sockets.target"),
    "docker.service": (
        {
            "After": "network-online.target docker.socket containerd.service",
            "Wants": "network-online.target containerd.service",
            "Requires": "docker.socket",
        },
        "multi-user.target",
    ),
}
SSH: Mapping[str, tuple[Section, str]] = {"ssh.service": ({"After": "network.target"}, "multi-user.target")}
# Not enabled by its package; `systemctl enable` would let multi-user.target want it.
ECS: Mapping[str, tuple[Section, str]] = {
    "ecs.service": (
        {"Wants": "docker.service", "PartOf": "docker.service", "After": "docker.service"},
        "",
    )
}


class Units:
    """Holds the folders of a machine's units, in which systemd looks in place of this machine's."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.own, self.vendor = root / "etc/systemd/system", root / "usr/lib/systemd/system"
        for folder in (self.own, self.vendor):
            folder.mkdir(parents=True)
        for package in (CLOUD_INIT, DOCKER, SSH):
            self.install(package)

    @property
    def path(self) -> str:
        return f"{self.own}:{self.vendor}:/usr/lib/systemd/system"

    def install(self, package: Mapping[str, tuple[Section, str]]) -> None:
        for name, (section, wanted_by) in package.items():
            lines = [f"{key}={value}" for key, value in section.items()]
            self.write(name, "\n".join(["[Unit]", f"Description={name}", *lines, *_service(name)]))
            if wanted_by:
                self.want(wanted_by, name)

    def write(self, name: str, text: str) -> None:
        (self.vendor / name).write_text(f"{text}\n", encoding="utf-8")

    def place(self, path: str, text: str) -> None:
        file = self.root / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")

    def enable(self, name: str) -> None:
        """Do as systemctl: every line of [Install] is a link."""
        for line in (self.vendor / name).read_text(encoding="utf-8").splitlines():
            key, _, value = line.partition("=")
            if key in _INSTALL:
                for target in value.split():
                    self.want(target, name, _INSTALL[key])

    def want(self, target: str, name: str, how: str = "wants") -> None:
        folder = self.own / f"{target}.{how}"
        folder.mkdir(exist_ok=True)
        (folder / name).symlink_to(self.vendor / name)


def _service(name: str) -> list[str]:
    if name.endswith(".socket"):
        return ["[Socket]", "ListenStream=/run/docker.sock"]
    return ["[Service]", "Type=oneshot", f"ExecStart={_RUN}"] if name.endswith(".service") else []
