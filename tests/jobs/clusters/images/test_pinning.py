"""An Ubuntu release is pinned only together with packages that have headers for its kernel."""

from __future__ import annotations

import gzip
import json
import tomllib
from collections.abc import Iterator
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from shutil import copytree

import pytest
from click.testing import CliRunner

from slipway.infra.clusters import MACHINE_IMAGES
from slipway.infra.declare.machine_images import CONTAINERS, pinned_parent
from slipway.jobs.cli.cli import cli
from slipway.jobs.clusters.images.pinning import (
    CannotPin,
    Kernels,
    NoArchive,
    Pin,
    find_pin,
    find_pins,
    kernels_of,
    sha256_of,
    suite_of,
    with_checksums,
    with_pin,
)
from slipway.jobs.words.images.ami_locks import (
    TO_BE_FILLED,
    Parent,
    lock_path,
    lock_problems,
    locked_parent,
    moves,
    pinned,
)
from tests.local_server import files_of, serving

NOW = datetime(2026, 11, 22, 11, 30, tzinfo=UTC)
PIN = Pin(
    serial="20261118",
    kernel="6.14.0-1017-aws",
    snapshot="20261122T110000Z",
    newest_kernel="6.14.0-1018-aws",
)
IMAGES = pytest.mark.parametrize("image", [image.name for image in MACHINE_IMAGES])


def index(meta: str, *headers: str) -> str:
    """Return an index of packages in the archive's form."""
    kernel = f"Package: linux-image-aws\nVersion: 1\nDepends: linux-image-{meta}, linux-base\n\n"
    return kernel + "\n".join(f"Package: linux-headers-{header}\nVersion: 1\n" for header in headers)


@pytest.fixture
def archive(tmp_path: Path) -> Iterator[str]:
    pockets = {
        "noble": index("6.8.0-1008-aws", "6.8.0-1008-aws"),
        "noble-updates": index("6.14.0-1018-aws", "6.14.0-1017-aws", "6.14.0-1018-aws"),
        "noble-security": index("6.14.0-1017-aws", "6.14.0-1017-aws"),
    }
    for pocket, text in pockets.items():
        file = tmp_path / "20261122T110000Z" / "dists" / pocket / "main" / "binary-amd64" / "Packages.gz"
        file.parent.mkdir(parents=True)
        file.write_bytes(gzip.compress(text.encode()))
    with serving(files_of(tmp_path)) as address:
        yield address


def test_the_archive_tells_its_newest_kernel_and_which_have_headers(archive: str) -> None:
    found = kernels_of("noble", "20261122T110000Z", archive)
    assert found.newest == "6.14.0-1018-aws"
    assert found.with_headers == {"6.8.0-1008-aws", "6.14.0-1017-aws", "6.14.0-1018-aws"}


def test_a_moment_that_the_archive_does_not_have_is_told_by_its_address(archive: str) -> None:
    with pytest.raises(
        NoArchive, match=r"20260101T000000Z/dists/noble/main/binary-amd64/Packages\.gz cannot be"
    ):
        kernels_of("noble", "20260101T000000Z", archive)


def test_a_release_is_pinned_with_this_hour_s_packages() -> None:
    moments = {
        "20261118T000000Z": Kernels(newest="6.14.0-1017-aws", with_headers=frozenset()),
        "20261122T110000Z": Kernels(
            newest="6.14.0-1018-aws", with_headers=frozenset({"6.14.0-1017-aws", "6.14.0-1018-aws"})
        ),
    }
    assert find_pin("20261118", moments.__getitem__, NOW) == PIN


def test_a_release_whose_kernel_has_no_headers_any_more_is_not_pinned() -> None:
    kernels = Kernels(newest="6.14.0-1017-aws", with_headers=frozenset({"6.14.0-1018-aws"}))
    with pytest.raises(
        CannotPin, match=r"kernel 6\.14\.0-1017-aws, for which the packages of 2026.* no headers"
    ):
        find_pin("20261118", lambda _: kernels, NOW)


RELEASES = {"22.04": "20261117", "24.04": "20261118"}


def newest(parent: str, _region: str) -> str:
    return next(serial for release, serial in RELEASES.items() if f"/server/{release}/" in parent)


def test_all_images_are_pinned_to_one_hour_and_each_archive_is_asked_once_a_moment() -> None:
    asked: list[tuple[str, str]] = []

    def kernels(suite: str, moment: str) -> Kernels:
        asked.append((suite, moment))
        return Kernels(newest=PIN.kernel, with_headers=frozenset({PIN.kernel}))

    pins = find_pins(MACHINE_IMAGES, newest, kernels, NOW)
    assert {name: (pin.serial, pin.snapshot) for name, pin in pins.items()} == {
        "cpu-mpi": ("20261118", PIN.snapshot),
        "neuron-slurm": ("20261117", PIN.snapshot),
        "gaudi-ecs": ("20261117", PIN.snapshot),
        "gaudi-mpi": ("20261117", PIN.snapshot),
    }
    assert sorted(asked) == [
        ("jammy", "20261117T000000Z"),
        ("jammy", PIN.snapshot),
        ("noble", "20261118T000000Z"),
        ("noble", PIN.snapshot),
    ]


@pytest.fixture
def locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let the command write into a copy, with an archive whose packages fit only the releases of noble."""
    copytree(CONTAINERS / "images", tmp_path / "images")

    def kernels(suite: str, _moment: str) -> Kernels:
        headers = frozenset({PIN.kernel}) if suite == "noble" else frozenset()
        return Kernels(newest=PIN.kernel, with_headers=headers)

    monkeypatch.setattr("slipway.jobs.cli.images._own_locks", lambda: tmp_path)
    monkeypatch.setattr("slipway.jobs.clusters.images.baking.newest_release", newest)
    monkeypatch.setattr("slipway.jobs.cli.images.kernels_of", kernels)
    monkeypatch.setattr("slipway.jobs.cli.images.sha256_of", lambda _url: "0a" * 32)
    return tmp_path


def test_the_command_writes_the_lock_of_the_image_that_is_named(locks: Path) -> None:
    done = CliRunner().invoke(cli, ["image", "pin", "cpu-mpi", "--json"])
    assert done.exit_code == 0
    assert [(row["image"], row["serial"]) for row in json.loads(done.stdout)] == [("cpu-mpi", "20261118")]
    assert locked_parent(locks, "cpu-mpi") == Parent(serial="20261118", kernel=PIN.kernel)
    assert locked_parent(locks, "neuron-slurm") == locked_parent(CONTAINERS, "neuron-slurm")
    assert "cdk deploy slipway-bakery-cpu-mpi" in done.stderr


def test_if_one_of_all_images_cannot_be_pinned_no_lock_changes(locks: Path) -> None:
    done = CliRunner().invoke(cli, ["image", "pin"])
    assert isinstance(done.exception, CannotPin)
    for image in MACHINE_IMAGES:
        assert lock_path(locks, image.name).read_text() == lock_path(CONTAINERS, image.name).read_text()


@IMAGES
def test_a_pin_changes_four_values_of_a_lock_and_leaves_its_comments(image: str, tmp_path: Path) -> None:
    before = lock_path(CONTAINERS, image).read_text(encoding="utf-8")
    path = lock_path(tmp_path, image)
    path.parent.mkdir(parents=True)
    path.write_text(with_pin(before, PIN), encoding="utf-8")
    assert lock_problems(tmp_path, image) == ()
    parent = locked_parent(tmp_path, image)
    assert parent is not None
    assert (parent.serial, parent.kernel) == ("20261118", "6.14.0-1017-aws")
    tables = tomllib.loads(path.read_text(encoding="utf-8"))
    assert (tables["apt"]["snapshot"], tables["apt"]["kernel"]) == (PIN.snapshot, PIN.newest_kernel)
    changed = set(path.read_text(encoding="utf-8").splitlines()) ^ set(before.splitlines())
    assert all(line.startswith(("[parent]", "serial", "kernel", "snapshot")) for line in changed)
    assert with_pin(path.read_text(encoding="utf-8"), PIN) == path.read_text(encoding="utf-8")


def test_a_file_without_a_checksum_is_held_to_what_arrives_now(archive: str, tmp_path: Path) -> None:
    (tmp_path / "agent.tar.gz").write_bytes(b"an installer")
    source = f'[unlisted.{{}}]\nurl = "{archive}/{{}}"\nsha256 = "{TO_BE_FILLED}"\n'
    lock = source.format("agent", "agent.tar.gz") + source.format("wheels", "simple")
    text, filled = with_checksums(lock, sha256_of)
    assert filled == [f"{archive}/agent.tar.gz"]
    tables = tomllib.loads(text)["unlisted"]
    assert tables["agent"]["sha256"] == sha256(b"an installer").hexdigest()
    assert tables["wheels"]["sha256"] == TO_BE_FILLED, "an index is no file"
    assert with_checksums(text, sha256_of) == (text, [])
    (tmp_path / "agent.tar.gz").unlink()
    with pytest.raises(
        NoArchive, match=r"agent\.tar\.gz cannot be read, and its checksum is not in the lock"
    ):
        with_checksums(lock, sha256_of)


@IMAGES
def test_a_shipped_parent_is_one_release_that_is_not_newer_than_its_packages(image: str) -> None:
    """A bake today and one next month begin with the same AMI."""
    (declared,) = [each for each in MACHINE_IMAGES if each.name == image]
    assert not moves(pinned_parent(declared))
    assert lock_problems(CONTAINERS, image) == ()


@IMAGES
def test_every_declared_parent_has_a_release_to_pin(image: str) -> None:
    (declared,) = [each for each in MACHINE_IMAGES if each.name == image]
    assert suite_of(declared.parent) in ("jammy", "noble")
    assert "/stable/20261118/amd64/" in pinned(declared.parent, "20261118")


@pytest.mark.parametrize("parent", ["ami-0123456789abcdef0", "ssm:/aws/service/canonical/ubuntu/server/9/x"])
def test_a_parent_that_names_no_newest_release_cannot_be_pinned(parent: str) -> None:
    with pytest.raises(CannotPin, match="names no newest release of Canonical's"):
        suite_of(parent)
