"""Writes a node's user data: facts about its cluster and, on an AMI of AWS's, what our bakes hold.

The scripts for each boot are in infra/boot, and reach a node in one of two ways: a bake installs them, or
unpack.py does, which cloud-init runs early at each boot. Batch merges its own part into this message, and
accepts a launch template's user data only as MIME multipart (AWS Batch user guide, "Use Amazon EC2 launch
templates"). Values are sent as JSON and never as shell, whatever is in them.
"""

from __future__ import annotations

import base64
import bz2
import json
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from textwrap import wrap

from aws_cdk import Fn

from slipway.infra.declare.node_images import NodeImage

MOST_BYTES = 16 * 1024  # EC2 user guide, before base64; Batch adds less than a kilobyte
_BOOT = Path(__file__).parents[2] / "boot"
_ARCHIVE = "# archive: "  # unpack.py looks for it

# No part contains it; it is constant, so that unchanged nodes keep their launch template.
_BOUNDARY = "==SLIPWAY=="

# The units that give jobs to a node, by component: a drop-in makes each wait for the node's boot.
_WAITING: Mapping[str, tuple[str, str]] = {
    "ecs-agent": ("ecs.service.conf", "etc/systemd/system/ecs.service.d/10-slipway.conf"),
}
_OF_SLURM = _BOOT / "agents" / "slurm"  # a tree, which software/slurm_node.sh copies in a bake


@dataclass(frozen=True, slots=True, kw_only=True)
class BootFile:
    path: str
    mode: str
    content: str
    append: bool = False  # True: append to what the AMI or AWS has written there


def node_user_data(parameters: Mapping[str, object], image: NodeImage) -> str:
    """Return base64, as a launch template takes it. Values may be tokens of ids, which are safe in JSON."""
    document = json.dumps(parameters)  # ASCII: cloud-init reads text and would damage the rest
    return Fn.base64(mime_document(boot_files(document, image), "" if image.is_baked else unpacking(image)))


def boot_files(parameters_json: str, image: NodeImage) -> tuple[BootFile, ...]:
    """Return the files that cloud-init writes: what the scripts of infra/boot and the agents read."""
    assert "\n" not in parameters_json, "the parameters are one line"
    told = BootFile(path="/etc/slipway/node.json", mode="0444", content=parameters_json)
    if image.is_baked or "ecs-agent" not in image.holds:
        return (told,)
    settings = (_BOOT / "agents" / "ecs.config").read_text(encoding="ascii")
    return told, BootFile(path="/etc/ecs/ecs.config", mode="0644", content=settings, append=True)


def unpacking(image: NodeImage) -> str:
    """Return the program that brings the scripts and units of infra/boot to a node of this image."""
    target = BytesIO()
    # The same archive wherever and whenever it is made.
    with tarfile.open(fileobj=target, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for path, file, mode in _installed(image):
            content, entry = file.read_bytes(), tarfile.TarInfo(path)
            entry.size, entry.mode = len(content), mode
            archive.addfile(entry, BytesIO(content))
    # bzip2 has one library, and zlib has several that pack into other bytes: another template, other nodes.
    packed = base64.b64encode(bz2.compress(target.getvalue())).decode("ascii")
    program = (_BOOT / "unpack.py").read_text(encoding="ascii")
    return program + "".join(f"{_ARCHIVE}{line}\n" for line in wrap(packed, 110))


def mime_document(files: tuple[BootFile, ...], program: str = "") -> str:
    cloud_config = "#cloud-config\nwrite_files:\n" + "".join(map(_cloud_config_entry, files))
    parts = _part("text/cloud-config", cloud_config)
    if program:  # cloud-init runs a boothook before it writes files (its documentation, "User data formats")
        parts = _part("text/cloud-boothook", program) + parts
    head = f'MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary="{_BOUNDARY}"\n\n'
    return f"{head}{parts}--{_BOUNDARY}--\n"


def _cloud_config_entry(file: BootFile) -> str:
    """Indent the file into a literal block of YAML, which takes any text unchanged."""
    content = "".join(f"    {line}\n" if line else "\n" for line in file.content.splitlines())
    append = "  append: true\n" if file.append else ""
    return f'- path: {file.path}\n  permissions: "{file.mode}"\n{append}  content: |\n{content}'


def _part(content_type: str, content: str) -> str:
    return f'--{_BOUNDARY}\nContent-Type: {content_type}; charset="utf-8"\n\n{content}\n'


def _installed(image: NodeImage) -> Iterator[tuple[str, Path, int]]:
    """Yield each file's path in node-boot.yaml, its path here, and its mode there.

    Files that only a bake's tests use are left out: EC2 accepts few bytes.
    """
    for script in sorted(set(_BOOT.glob("*.sh")) - set(_BOOT.glob("verify_*.sh"))):
        yield f"usr/lib/slipway/{script.name}", script, 0o755
    for unit in sorted((_BOOT / "units").iterdir()):
        yield f"usr/lib/systemd/system/{unit.name}", unit, 0o644
    for component, (drop_in, path) in _WAITING.items():
        if component in image.holds:
            yield path, _BOOT / "agents" / drop_in, 0o644
    if "pcs-agent" in image.holds:  # Slurm's daemons come while the rest is fetched (infra/boot/payload.sh)
        for file in sorted(_OF_SLURM.glob("etc/systemd/system/*.service.d/*")):
            yield file.relative_to(_OF_SLURM).as_posix(), file, 0o644
