"""Reads what an AMI is made of, containers/images/<image>/lock.toml, and makes its components' parameters.

A value of the lock reaches a component as the parameter of its path: sha256 in [downloads.efa] is
DownloadsEfaSha256. A new kind of source is one row of SOURCES.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from slipway.jobs.words.catalogue.hardware import family_of
from slipway.jobs.words.catalogue.instances import InstanceType
from slipway.jobs.words.errors import Problem
from slipway.jobs.words.images.amis import MANIFEST_FACTS
from slipway.jobs.words.images.containers import JUNK_FOLDERS, lock_tables
from slipway.jobs.words.images.support import SUPPORT, support_mistakes

# The AMI from which a machine image is made: a release of Canonical's, by its serial, and the kernel it runs.
# Drivers are built for that kernel, with headers from the packages of one moment: a later release may run a
# kernel that those packages do not know. `slipway image pin` writes both into the lock. These words of AWS's
# and Canonical's parameters mean that their value changes with every release.
MOVING = frozenset({"latest", "current", "recommended"})
SERIAL = re.compile(r"[0-9]{8}(\.[0-9]+)?")
_CURRENT = "/stable/current/"
_OF_NAME = re.compile(r"^ubuntu/images/.*-(?P<serial>[0-9]{8}(\.[0-9]+)?)$")
_DAY = 8  # digits of a serial or of a moment such as 20261120T000000Z


@dataclass(frozen=True, slots=True, kw_only=True)
class Parent:
    """Holds the table [parent] of a lock."""

    serial: str
    kernel: str | None = None  # None: the kernel that it boots is unknown


def moves(parent: str) -> bool:
    """Return True if the parameter's value changes with every release."""
    return bool(MOVING & set(parent.split("/")))


def pinned(parent: str, serial: str | None) -> str:
    """Return the parameter of one release of Canonical's, given the parameter of the newest."""
    return parent.replace(_CURRENT, f"/stable/{serial}/") if serial else parent


def can_be_pinned(parent: str) -> bool:
    return parent.startswith("ssm:/aws/service/canonical/") and _CURRENT in parent


def serial_of(ami_name: str) -> str | None:
    """Return the serial in the name of one of Canonical's AMIs; None for any other AMI."""
    found = _OF_NAME.match(ami_name)
    return found["serial"] if found else None


def is_newer(serial: str, snapshot: str) -> bool:
    """Return True if the release is of a later day than the packages."""
    return serial[:_DAY] > snapshot[:_DAY]


def kernel_numbers(kernel: str) -> tuple[int, ...]:
    """Return the numbers in a kernel's name: 6.14.0-1018-aws is 6, 14, 0, 1018."""
    return tuple(int(number) for number in re.findall(r"[0-9]+", kernel))


def parent_mistakes(parent: Mapping[str, object], apt: Mapping[str, object]) -> Iterator[str]:
    """Yield where a valid [parent] and a valid [apt] of a lock contradict each other."""
    serial, snapshot = str(parent["serial"]), str(apt["snapshot"])
    if is_newer(serial, snapshot):
        yield f"has serial = {serial}, which is newer than the packages of {snapshot}"
    kernel, newest = parent.get("kernel"), apt.get("kernel")
    if (
        isinstance(kernel, str)
        and isinstance(newest, str)
        and kernel_numbers(kernel) > kernel_numbers(newest)
    ):
        yield f"has kernel = {kernel}, which is newer than {newest}, the newest of the packages of {snapshot}"


# Value in a lock that only a first bake on AWS can tell. The bake prints it and ends there, unless a
# signature protects the file meanwhile (slipway-check-sha256 of infra/components/base-apt.yaml).
TO_BE_FILLED = "to be filled at first bake"

_HTTPS = (
    re.compile(r"https://[A-Za-z0-9.-]+/[A-Za-z0-9._~/%+-]*|https://[A-Za-z0-9.-]+"),
    "an https address",
)
_SHA256 = (re.compile(r"[0-9a-f]{64}"), "a SHA-256 in 64 small hexadecimal digits")
_SHA256_LATER = (re.compile(rf"{_SHA256[0].pattern}|{TO_BE_FILLED}"), f"{_SHA256[1]} or '{TO_BE_FILLED}'")
_FINGERPRINT = (re.compile(r"[0-9A-F]{40}"), "a fingerprint in 40 capital hexadecimal digits")
_WORD = (re.compile(r"[A-Za-z0-9][A-Za-z0-9.+:~_-]*"), "letters, digits and . + : ~ _ -")

Form = tuple[re.Pattern[str], str]
# Fields of each kind of source: everything that a machine installs is verified by a hash or a pinned key.
SOURCES: Mapping[str, Mapping[str, Form]] = {
    "downloads": {"url": _HTTPS, "sha256": _SHA256},
    "unlisted": {"url": _HTTPS, "sha256": _SHA256_LATER},  # the publisher prints no checksum
    "signed": {
        "url": _HTTPS,
        "sha256": _SHA256_LATER,
        "signature": _HTTPS,
        "key": _HTTPS,
        "fingerprint": _FINGERPRINT,
    },
    "repositories": {"url": _HTTPS, "suite": _WORD, "key": _HTTPS, "fingerprint": _FINGERPRINT},
}
_APT: Mapping[str, Form] = {
    "snapshot": (re.compile(r"[0-9]{8}T[0-9]{6}Z"), "a moment such as 20261120T000000Z")
}
# Kernels: [apt] has that of its newest packages, [parent] its own. If they are missing, the bake compares.
_KERNEL = {"kernel": _WORD}
_PARENT: Mapping[str, Form] = {"serial": (SERIAL, "a serial such as 20261118")}
# Not passed to components, since the machine knows it itself.
_OF_THE_PARENT = {("parent", "serial"), ("parent", "kernel"), ("apt", "kernel")}
_DAYS = re.compile(rf"(?ms)^\[{SUPPORT}\]\n.*?(?=^\[|\Z)".encode())
_OF_A_REGISTRY = re.compile(r"^\[registry\]", re.MULTILINE)  # jobs/words/images/aws_images.py
_DIGEST_LENGTH = 16
_LONGEST_SHOWN = 80


def lock_path(containers: Path, image: str) -> Path:
    return containers / "images" / image / "lock.toml"


def machine_image_names(containers: Path) -> tuple[str, ...]:
    """List the folders that describe AMIs of ours: neither container images nor AMIs that AWS publishes."""
    return tuple(
        sorted(
            path.parent.name
            for path in containers.glob("images/*/lock.toml")
            if not (path.parent / "Dockerfile").is_file() and not _OF_A_REGISTRY.search(path.read_text())
        )
    )


def lock_digest(containers: Path, image: str) -> str:
    """Return a digest of all files in the image's folder, without days of support, which no AMI holds."""
    folder = containers / "images" / image
    digest = sha256()
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not JUNK_FOLDERS & set(path.parts) and not path.name.startswith("."):
            content = path.read_bytes()
            content = _DAYS.sub(b"", content) if path.name == "lock.toml" else content
            digest.update(f"{path.relative_to(folder).as_posix()}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()[:_DIGEST_LENGTH]


def is_debian(containers: Path, image: str) -> bool:
    """Return True if the image's packages come from apt."""
    return "apt" in lock_tables(lock_path(containers, image))


def lock_parameters(containers: Path, image: str) -> Mapping[str, str]:
    """Return each value of a valid lock by the name that components use; lists are joined by spaces."""
    tables = lock_tables(lock_path(containers, image))
    return {
        "".join(map(_capital, path)): " ".join(value) if isinstance(value, list) else str(value)
        for path, value in _leaves(tables)
        if tuple(path) not in _OF_THE_PARENT and path[0] != SUPPORT
    }


def locked_parent(containers: Path, image: str) -> Parent | None:
    """Return the parent's release that a valid lock names; None if it names none."""
    found = lock_tables(lock_path(containers, image)).get("parent")
    return Parent(**found) if found else None


def unfilled(containers: Path, image: str) -> tuple[str, ...]:
    """Return the downloads of a valid lock that have neither a checksum yet nor a signature."""
    tables = lock_tables(lock_path(containers, image))
    return tuple(
        name for name, source in tables.get("unlisted", {}).items() if source["sha256"] == TO_BE_FILLED
    )


def lock_problems(containers: Path, image: str) -> tuple[Problem, ...]:
    """List everything that is wrong with an image's lock."""
    path = lock_path(containers, image)
    where = f"containers/images/{image}/lock.toml"
    try:
        tables = lock_tables(path)
    except FileNotFoundError:
        return (Problem(where=where, message="is missing", hint="write it, as its neighbours show"),)
    except ValueError as error:
        return (
            Problem(where=where, message=f"is not valid TOML: {error}", hint="fix it, or take it from git"),
        )
    return tuple(Problem(where=f"{where} [{place}]", message=mistake) for place, mistake in _mistakes(tables))


def _mistakes(tables: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    known = ("host", "parent", "apt", *SOURCES, SUPPORT)
    yield from (
        (name, f"is no table of a lock; those are {', '.join(known)}") for name in tables if name not in known
    )
    host = _table(tables, "host")
    yield from _unfit("host", host, dict.fromkeys(host, _WORD))
    yield from (
        ("host", f"has a component {name}, as a manifest calls a fact of its own; name it otherwise")
        for name in sorted(MANIFEST_FACTS & host.keys())
    )
    apt = dict(_table(tables, "apt"))
    packages = apt.pop("packages", ())
    if not isinstance(packages, list) or not all(_fits(_WORD, package) for package in packages):
        yield "apt", f"has packages = {_shown(packages)}, not a list of names such as dkms or dkms=3.0.11"
    of_packages = list(_unfit("apt", apt, _with_kernel(_APT, apt)))
    parent = _table(tables, "parent")
    of_parent = list(_unfit("parent", parent, _with_kernel(_PARENT, parent))) if parent else []
    yield from (*of_packages, *of_parent)
    if parent and not of_packages and not of_parent:
        yield from (("parent", mistake) for mistake in parent_mistakes(parent, apt))
    if SUPPORT in tables:
        yield from ((SUPPORT, mistake) for mistake in support_mistakes(tables))
    for kind, forms in SOURCES.items():
        for name, source in _table(tables, kind).items():
            fields = source if isinstance(source, Mapping) else {}
            yield from _unfit(f"{kind}.{name}", fields, forms)


def _with_kernel(forms: Mapping[str, Form], table: Mapping[str, object]) -> Mapping[str, Form]:
    return {**forms, **(_KERNEL if "kernel" in table else {})}


def _unfit(place: str, table: Mapping[str, object], forms: Mapping[str, Form]) -> Iterator[tuple[str, str]]:
    for name in (*forms, *(each for each in table if each not in forms)):
        value = table.get(name)
        if name not in forms:
            yield place, f"has the unknown {name}; known are {', '.join(forms)}"
        elif name not in table:
            yield place, f"lacks {name}"
        elif _fits(forms[name], value):
            continue
        elif value == TO_BE_FILLED:
            yield place, f"has no {name} yet, and needs one: no bake would print it"
        else:
            yield place, f"has {name} = {_shown(value)}, not {forms[name][1]}"


def _fits(form: Form, value: object) -> bool:
    return isinstance(value, str) and form[0].fullmatch(value) is not None


def _table(tables: Mapping[str, object], name: str) -> Mapping[str, object]:
    table = tables.get(name, {})
    return table if isinstance(table, Mapping) else {name: table}


def _leaves(table: Mapping[str, object], above: Sequence[str] = ()) -> Iterator[tuple[list[str], object]]:
    for name, value in table.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, (*above, name))
        else:
            yield [*above, name], value


def _capital(part: str) -> str:
    return "".join(word.capitalize() for word in re.split(r"[-_.]", part))


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"


# What the AMI of a cluster's nodes must hold, by kind of cluster and accelerators of its type. Declarations
# are checked by the lock of their AMI, preflight checks the manifest of the baked one. Another kind, or
# another way to drive accelerators, is a row and a lock that has what it names. Parents, packages and
# downloads of all machine images' locks are for these processors.
ARCHITECTURE = "x86_64"

# By kind of cluster, in the locks' names: what joins a node to the cluster, and what starts ranks.
SOFTWARE: Mapping[str, tuple[str, ...]] = {
    "batch": ("ecs-agent",),
    "mpi": ("open-mpi",),
    "slurm": ("slurm", "pcs-agent"),
}
_VENDORS_PYTHON = "training-python"  # with which ranks use an accelerator without a container
_RANKS_IN_CONTAINERS = frozenset({"batch"})
STARTS_CONTAINERS = "pyxis"  # Slurm starts containers with it


def missing_software(kind: str, type_: InstanceType, held: Collection[str]) -> tuple[str, ...]:
    """Return the software that nodes of this type and kind of cluster need and that is not in `held`."""
    needed = SOFTWARE[kind]
    if family := family_of(type_):
        needed = (*needed, family.driver)
        if kind not in _RANKS_IN_CONTAINERS and STARTS_CONTAINERS not in held:
            needed = (*needed, _VENDORS_PYTHON)
    return tuple(name for name in needed if name not in held)
