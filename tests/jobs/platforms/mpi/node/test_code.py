"""The code of a job: packed alike everywhere, proved before it is unpacked, and unpacked once."""

from __future__ import annotations

import gzip
import io
import os
import tarfile
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from slipway.jobs.platforms.code_bundle import own_containers, pack
from slipway.jobs.platforms.mpi.node.run import ensure_code
from slipway.jobs.platforms.mpi.node.setting import NodePaths, Setup
from slipway.jobs.platforms.on_nodes import DamagedCode
from tests.jobs.platforms.mpi.node.conftest import SETUP

WHERE = NodePaths(root=Path("/nowhere"))


class Store:
    """S3 with one object."""

    def __init__(self, body: bytes) -> None:
        self.body, self.asked = body, 0

    def get_object(self, **_: Any) -> dict[str, Any]:
        self.asked += 1
        return {"Body": io.BytesIO(self.body)}


def tree(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        path = folder / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def setup_of(tmp_path: Path) -> Setup:
    return replace(SETUP, file_system_mount=str(tmp_path))


def test_the_same_files_make_the_same_bytes_whenever_they_were_written(tmp_path: Path) -> None:
    one = tree(tmp_path / "one", a="1", sub__b="2")
    two = tree(tmp_path / "two", sub__b="2", a="1")
    os.utime(two / "a", (1, 1))
    assert pack(one) == pack(two)


@pytest.mark.parametrize("changed", [{"a": "2"}, {"a": "1", "c": ""}])
def test_other_files_are_another_bundle(tmp_path: Path, changed: dict[str, str]) -> None:
    assert pack(tree(tmp_path / "one", a="1")).digest != pack(tree(tmp_path / "two", **changed)).digest


def test_what_is_unpacked_is_what_was_packed_without_what_only_images_need(tmp_path: Path) -> None:
    bundle = pack(own_containers())
    folder = ensure_code(WHERE, setup_of(tmp_path), bundle.digest, Store(bundle.packed))
    launch = Path("runtime/launch/launcher.py")
    assert (folder / "slipway" / "containers" / launch).read_bytes() == (
        own_containers() / launch
    ).read_bytes()
    assert not (folder / "slipway/containers/images").exists()
    assert not list(folder.rglob("__pycache__"))


def test_code_that_is_there_is_not_fetched_again(tmp_path: Path) -> None:
    bundle = pack(tree(tmp_path / "one", a="1"))
    store = Store(bundle.packed)
    folders = {ensure_code(WHERE, setup_of(tmp_path), bundle.digest, store) for _ in range(3)}
    assert (len(folders), store.asked) == (1, 1)


def test_how_far_it_is_compressed_does_not_matter(tmp_path: Path) -> None:
    bundle = pack(tree(tmp_path / "one", a="1"))
    otherwise = gzip.compress(gzip.decompress(bundle.packed), 1)
    folder = ensure_code(WHERE, setup_of(tmp_path), bundle.digest, Store(otherwise))
    assert (folder / "slipway/containers/a").read_text() == "1"


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"no gzip", id="no gzip"),
        pytest.param(gzip.compress(b"another archive"), id="another archive"),
    ],
)
def test_what_is_not_the_code_that_was_sent_is_never_unpacked(tmp_path: Path, body: bytes) -> None:
    digest = pack(tree(tmp_path / "one", a="1")).digest
    with pytest.raises(DamagedCode, match=digest):
        ensure_code(WHERE, setup_of(tmp_path), digest, Store(body))
    assert not (tmp_path / "slipway").exists()


def a_link() -> tarfile.TarInfo:
    member = tarfile.TarInfo("inside")
    member.type, member.linkname = tarfile.SYMTYPE, "/etc"
    return member


@pytest.mark.parametrize(
    "member", [tarfile.TarInfo("../../escaped"), tarfile.TarInfo("/tmp/escaped-slipway"), a_link()]
)
def test_an_archive_writes_plain_files_below_its_folder_and_nothing_else(
    tmp_path: Path, member: tarfile.TarInfo
) -> None:
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w") as tar:
        tar.addfile(member)
    body = plain.getvalue()
    with pytest.raises(DamagedCode, match="no file below its folder"):
        ensure_code(WHERE, setup_of(tmp_path), sha256(body).hexdigest(), Store(gzip.compress(body)))
    assert not list(tmp_path.rglob("*escaped*"))


def test_code_that_no_files_share_lies_where_no_other_user_can_lay_some_before(tmp_path: Path) -> None:
    """Folders in /tmp have names that anybody could take first."""
    where, bundle = NodePaths(root=tmp_path / "node"), pack(tree(tmp_path / "one", a="1"))
    folder = ensure_code(where, replace(SETUP, file_system_mount=None), bundle.digest, Store(bundle.packed))
    assert folder.is_relative_to(where.run)
