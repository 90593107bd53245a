"""The units of a host that boots this machine's own files: those of an AMI, not those that this machine runs.

A host must not start this machine's databases and timers. A Debian unit that each host
starts is a line of _ENABLED; our own units are taken from the image's component unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from slipway.jobs.words import slurm
from slipway.yard import bounded_yaml

UNITS = "/etc/systemd/system"
VENDOR = "/lib/systemd/system"
# Unit -> the folder in which Debian's package links it to enable it.
_ENABLED = {
    "cloud-init-local.service": "cloud-init.target.wants",
    "cloud-init.service": "cloud-init.target.wants",
    "cloud-config.service": "cloud-init.target.wants",
    "cloud-final.service": "cloud-init.target.wants",
    "ssh.service": "multi-user.target.wants",
}
_LINKS = {
    f"{UNITS}/default.target": f"{VENDOR}/multi-user.target",
    f"{UNITS}/sshd.service": f"{VENDOR}/ssh.service",  # cloud-init is ordered before this name
}
# Removed from the host's tree: this machine's units, disks and logs, and its cloud-init's settings and state.
_REMOVED = (
    "/etc/cloud/cloud-init.disabled",
    "/etc/crypttab",
    "/etc/fstab",
    "/etc/init.d",
    "/etc/systemd",
    "/var/lib/cloud",
    "/var/lib/systemd",
    "/var/log/journal",
)
_OF_CLOUD_INIT = ("05_logging.cfg",)
_COMPONENT = "infra/components/slipway-node.yaml"  # for nodes without Slurm
# What the component node-boot installs: source and target.
_SCRIPTS, _INSTALLED_SCRIPTS = "infra/boot", "/usr/lib/slipway"
_OWN_UNITS, _INSTALLED_UNITS = "infra/boot/units", "/usr/lib/systemd/system"
_SLURM_SCRIPTS = "jobs/platforms/slurm/scripts"  # in a Slurm cluster's AMI
_SLURM_SETTINGS = "infra/boot/agents/slurm"  # files for Slurm's daemons, relative to /
# systemctl(1), enable: key in [Install] -> suffix of the folder that gets a link.
_INSTALL = {"WantedBy": "wants", "RequiredBy": "requires"}


def plan(*, is_slurm: bool, is_bare: bool = False) -> dict[str, Any]:
    """Return the part of a host's plan with its units; a bare host gets ours from its user data."""
    written = {} if is_bare else _image_files(is_slurm=is_slurm)
    links = {f"{UNITS}/{wants}/{unit}": f"{VENDOR}/{unit}" for unit, wants in _ENABLED.items()}
    logs = Path("/var/log").glob("cloud-init*")
    # Those that do not come from its Debian package.
    settings = [
        path for path in Path("/etc/cloud/cloud.cfg.d").glob("*.cfg") if path.name not in _OF_CLOUD_INIT
    ]
    return {
        "removed": [*_REMOVED, *map(str, (*Path("/etc").glob("rc?.d"), *logs, *settings))],
        "links": {**links, **_LINKS, **dict(_wanted(written))},
        "written": written,
    }


@lru_cache(maxsize=2)
def _image_files(*, is_slurm: bool) -> dict[str, dict[str, Any]]:
    """Return the files that a bake would write: path -> text and mode."""
    return {
        **(dict(_tree(_SLURM_SETTINGS)) if is_slurm else dict(_of_component())),
        **dict(_installed(_SCRIPTS, _INSTALLED_SCRIPTS, 0o755)),
        **dict(_installed(_OWN_UNITS, _INSTALLED_UNITS, 0o644)),
        **dict(_installed(_SLURM_SCRIPTS, slurm.SCRIPTS, 0o755)),
    }


def _of_component() -> Iterator[tuple[str, dict[str, Any]]]:
    text = files("slipway").joinpath(_COMPONENT).read_text(encoding="utf-8")
    phases = {phase["name"]: phase["steps"] for phase in bounded_yaml.load(text)["phases"]}
    given = [file for step in phases["build"] if step["action"] == "CreateFile" for file in step["inputs"]]
    for file in given:
        mode = file.get("permissions", 0o644)  # YAML reads 0644 as an octal number, but "0644" as text
        yield file["path"], {"text": file["content"], "mode": mode if isinstance(mode, int) else int(mode, 8)}


def _tree(source: str) -> Iterator[tuple[str, dict[str, Any]]]:
    folder = Path(str(files("slipway").joinpath(source)))
    for file in folder.rglob("*.conf"):
        yield f"/{file.relative_to(folder)}", {"text": file.read_text(encoding="utf-8"), "mode": 0o644}


def _installed(source: str, target: str, mode: int) -> Iterator[tuple[str, dict[str, Any]]]:
    folder = files("slipway").joinpath(source)
    for file in folder.iterdir() if folder.is_dir() else ():
        if file.is_file():
            yield f"{target}/{file.name}", {"text": file.read_text(encoding="utf-8"), "mode": mode}


def _wanted(written: dict[str, dict[str, Any]]) -> Iterator[tuple[str, str]]:
    """Yield the links that `systemctl enable` makes."""
    for path, file in written.items():
        for word, kind in _INSTALL.items():
            for targets in re.findall(rf"^{word}=(.*)$", file["text"], re.MULTILINE):
                for target in targets.split():
                    yield f"{UNITS}/{target}.{kind}/{Path(path).name}", path
