"""Packs what a bake needs of this package into one zip: what nodes run at each boot.

An image with a Python lock also gets that, uv's lock, and a wheel of the project. The same files give the
same zip, byte for byte: its digest is its name in S3, and the build machine checks it.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from zipfile import ZipFile, ZipInfo

from aws_cdk import aws_s3_assets as s3_assets
from constructs import Construct

from slipway.jobs.words.images.containers import JUNK_FOLDERS
from slipway.jobs.words.installation import NAME, PACKAGE

ROOMS = ("containers", "jobs")
# The commands of pyproject.toml, which is not installed with the package; a test compares them.
SCRIPTS = {
    "slipway": "slipway.jobs.entry:main",
    "slipway-node": "slipway.jobs.platforms.mpi.node.main:main",
}
_VERSION_DIGITS = 12
_WHEEL = b"Wheel-Version: 1.0\nGenerator: slipway\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
_LONG_AGO = (1980, 1, 1, 0, 0, 0)  # a zip needs times; any constant serves
_BOOT_SUFFIXES = frozenset({".conf", ".config", ".lock", ".service", ".sh", ".timer"})
_SUFFIXES = frozenset({".c", ".csv", ".h", ".py", ".sh", ".slurm", ".toml"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Payload:
    content: bytes
    digest: str


def payload_of(image: str) -> Payload:
    files = _boot_files()
    requirements = PACKAGE / "containers" / "images" / image / "requirements.txt"
    if requirements.is_file():
        name, wheel = project_wheel()
        uv = PACKAGE / "infra" / "components" / "uv.txt"
        files |= {requirements.name: requirements.read_bytes(), uv.name: uv.read_bytes(), name: wheel}
        training = requirements.with_name("training.txt")  # for ranks that run in a Python of their own
        if training.is_file():
            files[training.name] = training.read_bytes()
    content = _zipped(files)
    return Payload(content=content, digest=sha256(content).hexdigest())


@lru_cache(maxsize=1)
def node_software() -> Payload:
    """Return what nodes of AWS's own AMIs fetch at their first boot: a bake's files, and the wheel alone."""
    name, wheel = project_wheel()
    content = _zipped({**_boot_files(), name: wheel})
    return Payload(content=content, digest=sha256(content).hexdigest())


@lru_cache(maxsize=1)
def project_wheel() -> tuple[str, bytes]:
    """Return the wheel's file name and bytes (packaging.python.org, "Binary distribution format").

    No build tool is needed: its content is the package's files, unchanged. Its version is the digest of these
    files and not the release's: two commits with the same code are one payload, and bake one AMI.
    """
    sources = _sources()
    digest = sha256()
    for name, content in sources.items():
        digest.update(f"{name}\0{len(content)}\0".encode() + content)
    version = f"0+h{digest.hexdigest()[:_VERSION_DIGITS]}"
    about = f"{NAME}-{version}.dist-info"
    scripts = "".join(f"{script} = {target}\n" for script, target in sorted(SCRIPTS.items()))
    files = {
        **sources,
        f"{about}/METADATA": f"Metadata-Version: 2.1\nName: {NAME}\nVersion: {version}\n".encode(),
        f"{about}/WHEEL": _WHEEL,
        f"{about}/entry_points.txt": f"[console_scripts]\n{scripts}".encode(),
    }
    record = ""
    for name, content in files.items():
        in_base64 = urlsafe_b64encode(sha256(content).digest()).rstrip(b"=").decode()
        record += f"{name},sha256={in_base64},{len(content)}\n"
    files[f"{about}/RECORD"] = f"{record}{about}/RECORD,,\n".encode()
    return f"{NAME}-{version}-py3-none-any.whl", _zipped(files)


def _boot_files() -> dict[str, bytes]:
    folder = PACKAGE / "infra" / "boot"
    files = sorted(path for path in folder.rglob("*") if path.suffix in _BOOT_SUFFIXES)
    return {f"boot/{path.relative_to(folder).as_posix()}": path.read_bytes() for path in files}


def _sources() -> dict[str, bytes]:
    found = {
        f"{NAME}/{path.relative_to(PACKAGE).as_posix()}": path.read_bytes()
        for room in ROOMS
        for path in sorted((PACKAGE / room).rglob("*"))
        if path.suffix in _SUFFIXES and path.is_file() and not JUNK_FOLDERS & set(path.parts)
    }
    return {f"{NAME}/__init__.py": (PACKAGE / "__init__.py").read_bytes(), **found}


def _zipped(files: Mapping[str, bytes]) -> bytes:
    target = BytesIO()
    with ZipFile(target, "w") as archive:  # nothing is compressed: each zlib would do it in its own way
        for name, content in files.items():
            entry = ZipInfo(name, date_time=_LONG_AGO)
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, content)
    return target.getvalue()


# Uploads the payload of a bake to S3, for components that need it. Most machine images have none.


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveredPayload:
    """Holds what components are told about the payload, and the object that their machine may read."""

    values: Mapping[str, str] = field(default_factory=dict)
    digest: str = ""
    object_arn: str | None = None


def deliver_payload(scope: Construct, id: str, payload: Payload | None) -> DeliveredPayload:
    if payload is None:
        return DeliveredPayload()
    asset = _uploaded(scope, id, payload)
    return DeliveredPayload(
        values={"PayloadSource": asset.s3_object_url, "PayloadSha256": payload.digest},
        digest=payload.digest,
        object_arn=asset.bucket.arn_for_objects(asset.s3_object_key),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSoftware:
    """Says where nodes find their software, and holds its parameters (infra/boot/payload.sh)."""

    object_arn: str
    parameters: Mapping[str, str]


def deliver_node_software(scope: Construct, id: str, *, installed_by: str) -> NodeSoftware:
    """Upload what nodes fetch; `installed_by` is a script of infra/boot/software."""
    payload = node_software()
    asset = _uploaded(scope, id, payload)
    return NodeSoftware(
        object_arn=asset.bucket.arn_for_objects(asset.s3_object_key),
        parameters={
            "url": asset.s3_object_url,
            "sha256": payload.digest,
            "installed_by": installed_by,
        },
    )


def _uploaded(scope: Construct, id: str, payload: Payload) -> s3_assets.Asset:
    with TemporaryDirectory() as folder:  # for as long as the CDK takes to copy it
        file = Path(folder) / "payload.zip"
        file.write_bytes(payload.content)
        return s3_assets.Asset(scope, id, path=str(file), asset_hash=payload.digest)
