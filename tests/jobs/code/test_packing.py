"""A folder gives the same archive everywhere; files that cannot be carried right are refused by name."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from slipway.containers.recipes.command.packages import DamagedSource, unpack_source
from slipway.jobs.code.folder import CannotShip, read_folder
from slipway.jobs.code.packing import PackedProject, pack_project
from tests.jobs.code.projects import git, write

FILES = {"train.py": "print('é')\n", "run.sh": "#!/bin/sh\n", "model/net.py": "pass\n"}


def pack(folder: Path, archive: Path) -> PackedProject:
    return pack_project(read_folder(folder), archive)


def project(folder: Path) -> Path:
    write(folder, FILES)
    (folder / "run.sh").chmod(0o755)
    (folder / "link.py").symlink_to("model/net.py")
    return folder


def test_the_same_files_make_the_same_bytes_wherever_whenever_and_whoever(tmp_path: Path) -> None:
    first, second = project(tmp_path / "a"), project(tmp_path / "elsewhere/b")
    git(second, "init")
    for path in second.rglob("*.py"):
        path.chmod(0o664)
        os.utime(path, (1, 1), follow_symlinks=False)
    packed = [pack(folder, tmp_path / f"{folder.name}.tar.gz") for folder in (first, second)]
    assert packed[0].digest == packed[1].digest
    assert packed[0].archive.read_bytes() == packed[1].archive.read_bytes()
    (second / "train.py").write_text("other\n")
    assert pack(second, tmp_path / "c.tar.gz").digest != packed[0].digest


def test_names_links_programs_and_bytes_that_are_no_utf8_arrive_on_a_node(tmp_path: Path) -> None:
    folder = project(tmp_path / "project")
    odd = os.fsdecode(b"caf\xe9 \n.txt")
    (folder / odd).write_bytes(b"\xff\0")
    (folder / ("long" * 40)).write_bytes(b"")
    packed = pack(folder, tmp_path / "x.tar.gz")
    arrived = tmp_path / "node"
    arrived.mkdir()
    unpack_source(str(packed.archive), packed.digest, arrived, None)
    assert {path.name for path in arrived.iterdir()} == {path.name for path in folder.iterdir()}
    assert (arrived / odd).read_bytes() == b"\xff\0"
    assert (arrived / "link.py").readlink() == Path("model/net.py")
    assert os.access(arrived / "run.sh", os.X_OK)
    assert not os.access(arrived / "train.py", os.X_OK)


@pytest.mark.parametrize("how", ["longer", "shorter", "replaced", "gone", "fifo"])
def test_a_file_that_changes_between_the_look_and_the_end_is_refused_by_name(
    tmp_path: Path, how: str
) -> None:
    looked = read_folder(project(tmp_path / "project"))
    file = tmp_path / "project/model/net.py"
    if how in ("gone", "fifo", "replaced"):
        file.rename(tmp_path / "old")
    if how == "fifo":
        os.mkfifo(file)
    elif how != "gone":
        file.write_text("pass\n" if how == "replaced" else "p" if how == "shorter" else "pass\n" * 9)
    with pytest.raises(CannotShip, match=r"model/net\.py") as refusal:
        pack_project(looked, tmp_path / "x.tar.gz")
    assert "when nothing writes to it" in refusal.value.hint


def test_an_archive_that_is_not_what_was_sent_is_not_run(tmp_path: Path) -> None:
    packed = pack(project(tmp_path / "project"), tmp_path / "x.tar.gz")
    for content, said in ((b"no gzip", "is not gzip"), (packed.archive.read_bytes(), "has the digest")):
        (tmp_path / "y.tar.gz").write_bytes(content)
        with pytest.raises(DamagedSource, match=said):
            unpack_source(str(tmp_path / "y.tar.gz"), "0" * 64, tmp_path / "nowhere", None)
