"""The folders behind a container's mounts: one for each file system, private ones for other volumes.

All of them are in the yard's scratch folder, and are deleted with the yard.
"""

from __future__ import annotations

import base64
import json
import re
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from slipway.yard.moto_backends import moto_backend

FILE_SYSTEMS = "file-systems"
ATTEMPTS = "attempts"
# The part of our user data that names the file system which a node mounts (infra/patterns/nodes/boot.py).
_FILES = re.compile(r'"files":\s*(\{[^{}]*\})')


def root() -> Path:
    return Path(tempfile.gettempdir()) / "batch"


def attempt_folder(job_id: str, number: int) -> Path:
    folder = root() / ATTEMPTS / f"{job_id}-{number}"
    folder.mkdir(parents=True)
    return folder


def file_systems() -> Path:
    """Return the folder of the shared file systems; nodes see files that users put there."""
    return root() / FILE_SYSTEMS


def file_system(identifier: str, below: str = "/") -> Path:
    folder = file_systems() / identifier / below.strip("/")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def forget() -> None:
    shutil.rmtree(root(), ignore_errors=True)


def mounts(container: Mapping[str, Any], shared: Mapping[str, str], private: Path) -> list[tuple[str, str]]:
    """Return (folder, path in the container), outer before inner. `shared`: path on a node -> file system."""
    volumes = {volume["name"]: volume for volume in container.get("volumes", ())}
    points = [
        (str(_source(volumes[point["sourceVolume"]], shared, private)), point["containerPath"])
        for point in container.get("mountPoints", ())
        if point.get("sourceVolume") in volumes
    ]
    return sorted(points, key=lambda point: len(point[1]))


def shared_paths(environment: Any, region: str) -> dict[str, str]:
    """Return path -> file system for a compute environment's nodes, from their launch template."""
    given = (environment.compute_resources or {}).get("launchTemplate")
    if not given:
        return {}
    backend = moto_backend("ec2", region)
    name, identifier = given.get("launchTemplateName"), given.get("launchTemplateId")
    template = backend.get_launch_template_by_name(name) if name else backend.get_launch_template(identifier)
    chosen = template.get_version(given.get("version") or "$Default")
    data = base64.b64decode(str(chosen.data.get("UserData") or "")).decode(errors="replace")
    found = (json.loads(text) for text in _FILES.findall(data))
    return {files["path"]: files["id"] for files in found if files.get("path") and files.get("id")}


def _source(volume: Mapping[str, Any], shared: Mapping[str, str], private: Path) -> Path:
    if efs := volume.get("efsVolumeConfiguration"):
        return file_system(str(efs["fileSystemId"]), efs.get("rootDirectory") or "/")
    path = (volume.get("host") or {}).get("sourcePath", "")
    for place, identifier in shared.items():
        if path == place or path.startswith(place + "/"):
            return file_system(identifier, path.removeprefix(place))
    folder = private / "volumes" / str(volume["name"])
    folder.mkdir(parents=True, exist_ok=True)
    return folder
