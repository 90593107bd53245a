"""The Debian that a bake begins with is made once, complete or not at all, if this machine can make it."""

from __future__ import annotations

import os
import sys
import tarfile
import venv
from pathlib import Path

import pytest

from slipway.yard.services.imagebuilder.machine import base, network_settings
from slipway.yard.services.imagebuilder.machine.base import (
    BASE_VARIABLE,
    NoBase,
    base_archive,
    reason_for_no_base,
)

# Takes the folder from its arguments, as debootstrap does, and records that it was called.
DEBOOTSTRAP = """#!/bin/bash
echo called >> "{notes}"
root="${{@: -1}}"
mkdir -p "$root/etc" "$root/dev"
echo name > "$root/etc/hostname"
echo content > "$root/etc/os-release"
[ -e "{broken}" ] && {{ echo "E: no route to the archive"; exit 1; }}
exit 0
"""


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Act as root with a debootstrap that takes no time, and an empty cache."""
    program = tmp_path / "bin" / "debootstrap"
    program.parent.mkdir()
    program.write_text(DEBOOTSTRAP.format(notes=tmp_path / "notes", broken=tmp_path / "broken"))
    program.chmod(0o755)
    inside = '#!/bin/sh\nshift\nexec "$@"\n'
    apt = f'#!/bin/sh\necho "$TMPDIR$PYTHONPATH" >> "{tmp_path / "folders"}"\n'
    apt += f'echo "$@" >> "{tmp_path / "added"}"\n'
    for name, text in (("chroot", inside), ("apt-get", apt)):
        (program.parent / name).write_text(text)
        (program.parent / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv(BASE_VARIABLE, raising=False)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    return tmp_path


def test_a_base_is_made_once_and_found_again(machine: Path) -> None:
    said: list[str] = []
    first = base_archive(said.append)
    assert base_archive(said.append) == first
    assert (machine / "notes").read_text().splitlines() == ["called"]
    assert (
        (machine / "added")
        .read_text()
        .endswith("install --no-install-recommends cloud-init openssh-server\n")
    )
    assert len(said) == 1
    assert str(first) in said[0]
    with tarfile.open(first) as archive:
        names = archive.getnames()
    assert "./etc/os-release" in names
    assert "./etc/hostname" not in names


def test_packages_are_set_up_without_the_folders_of_this_machine(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Debian's ssh asks mktemp for a file in TMPDIR: the yard's own is not there inside."""
    for name in ("TMPDIR", "PYTHONPATH"):
        monkeypatch.setenv(name, str(machine))
    base_archive(lambda _: None)
    assert set((machine / "folders").read_text().split()) == set()


def test_a_base_that_could_not_be_made_is_made_anew(machine: Path) -> None:
    (machine / "broken").touch()
    with pytest.raises(NoBase, match="debootstrap ended with 1: E: no route to the archive"):
        base_archive(lambda _: None)
    assert list(base.cache().glob("*.tar")) == []
    assert list(base.cache().glob("debootstrap-*")) == []
    (machine / "broken").unlink()
    assert base_archive(lambda _: None).is_file()


def test_another_list_of_packages_is_another_base(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = base_archive(lambda _: None)
    monkeypatch.setattr(base, "PACKAGES", (*base.PACKAGES, "another"))
    assert base_archive(lambda _: None) != first


def test_an_ordinary_user_is_told_what_is_needed(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert reason_for_no_base().startswith(
        "the yard runs as user 1000, and a base for machine images is made"
    )
    with pytest.raises(NoBase, match=BASE_VARIABLE):
        base_archive(lambda _: None)


def test_a_machine_without_debootstrap_is_told_how_to_get_it(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(machine / "nothing"))
    assert "debootstrap is not installed" in reason_for_no_base()
    assert "set_up.py machine" in reason_for_no_base()


def test_a_base_of_your_own_is_taken_and_a_wrong_name_refused(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = machine / "own.tar"
    monkeypatch.setenv(BASE_VARIABLE, str(own))
    with pytest.raises(NoBase, match="is not a file"):
        base_archive(lambda _: None)
    own.touch()
    assert base_archive(lambda _: None) == own
    assert not (machine / "notes").exists()


def test_pip_finds_the_folders_of_this_machine_under_other_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "index" / "simple").mkdir(parents=True)
    (tmp_path / "wheels").mkdir()
    settings = {
        "index_url": "https://mirror.test/simple",
        "extra_index_url": f"file://{tmp_path}/index/simple",
        "find_links": f"{tmp_path}/wheels /nowhere",
    }
    monkeypatch.setattr(network_settings, "_pip_settings", lambda: settings)
    shared = network_settings.prepare(tmp_path / "run")
    assert shared == [(f"{tmp_path}/index", "run/slipway/pip-0"), (f"{tmp_path}/wheels", "run/slipway/pip-1")]
    written = (tmp_path / "run" / "slipway" / "pip.conf").read_text().splitlines()
    assert written == [
        "[global]",
        "index_url = https://mirror.test/simple",
        "extra_index_url = file:///run/slipway/pip-0/simple",
        "find_links = /run/slipway/pip-1/ /nowhere",
    ]


def test_an_environment_without_pip_asks_the_machines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An environment made by uv has no pip, and a bake uses the index that this machine's pip would use."""
    venv.create(tmp_path / "venv", with_pip=False)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "venv" / "bin" / "python"))
    monkeypatch.setenv("PIP_INDEX_URL", "https://mirror.test/simple")
    network_settings.prepare(tmp_path / "run")
    written = (tmp_path / "run" / "slipway" / "pip.conf").read_text().splitlines()
    assert "index_url = https://mirror.test/simple" in written
