"""The journal has each intent on disk before it is carried out, and no accident loses or doubles a job."""

from __future__ import annotations

import errno
import fcntl
import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from slipway.jobs.platforms.journal import Entry, Journal, NoJournal, journal_folder
from slipway.jobs.words.text import NewerRecord
from tests.jobs.words.test_targets import TARGET

ENTRY = Entry(
    name="bert-0123456789ab",
    target="dl1",
    recipe="bert_pretrain",
    nodes=2,
    image="gaudi:1",
    image_digest=None,
    written_at=1_700_000_000,
)


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    journal = Journal(folder=tmp_path / "journal")
    journal.folder.mkdir()
    return journal


def test_what_is_written_is_read(journal: Journal) -> None:
    journal.write(ENTRY)
    assert journal.read(ENTRY.name) == ENTRY
    journal.write(replace(ENTRY, job_id="b0c1"))
    assert journal.read(ENTRY.name) == replace(ENTRY, job_id="b0c1")


def test_a_file_system_without_locks_is_one_clear_line(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fcntl, "flock", without_locks)
    with pytest.raises(NoJournal, match="Function not implemented"), journal.locked(ENTRY.name, lambda: None):
        raise AssertionError("it was not locked")


def without_locks(descriptor: int, how: int) -> None:
    """Answer as Lustre does that is mounted without the option flock."""
    raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))


def test_what_was_refused_leaves_nothing(journal: Journal) -> None:
    journal.write(ENTRY)
    journal.remove(ENTRY.name)
    journal.remove(ENTRY.name)
    assert journal.read(ENTRY.name) is None


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", json.dumps({"name": "another"}), "\x00"])
def test_a_damaged_entry_is_no_entry(journal: Journal, text: str) -> None:
    """The platform is asked for the name in either case."""
    (journal.folder / f"{ENTRY.name}.json").write_text(text)
    assert journal.read(ENTRY.name) is None


def test_an_entry_is_synced_before_it_takes_its_place(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    sync, take_place = os.fsync, Path.replace

    def synced(file: int) -> None:
        done.append("sync")
        sync(file)

    def replaced(path: Path, target: Path) -> Path:
        done.append("rename")
        return take_place(path, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "replace", replaced)
    journal.write(ENTRY)
    assert done == ["sync", "rename", "sync"]


def test_a_journal_that_cannot_be_written_is_told_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    journal = Journal(folder=tmp_path / "file" / "journal")
    with pytest.raises(NoJournal, match="cannot be used") as refusal, journal.locked("a", lambda: None):
        pass
    assert "XDG_STATE_HOME" in refusal.value.hint


def test_the_second_of_two_waits_for_the_first(journal: Journal) -> None:
    """The lock belongs to the open file: a second open file of this process is refused like another's."""
    waited: list[str] = []

    def give_up() -> None:
        waited.append("waiting")
        raise KeyboardInterrupt

    with journal.locked("a", lambda: None):
        with pytest.raises(KeyboardInterrupt), journal.locked("a", give_up):
            pass
        with journal.locked("b", give_up):
            pass
    with journal.locked("a", give_up):
        pass
    assert waited == ["waiting"]


def test_endpoints_accounts_and_regions_have_journals_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    folders = {
        journal_folder(TARGET, None),
        journal_folder(TARGET, "http://127.0.0.1:5566"),
        journal_folder(replace(TARGET, region="eu-west-1"), None),
        journal_folder(replace(TARGET, account="210987654321"), None),
    }
    assert len(folders) == 4
    assert all(folder.is_relative_to(tmp_path / "slipway") for folder in folders)


def test_a_relative_state_home_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "state")
    assert journal_folder(TARGET, None).is_relative_to(Path.home() / ".local" / "state")


def test_an_entry_of_a_newer_slipway_is_refused_and_left_as_it_is(journal: Journal) -> None:
    journal.write(replace(ENTRY, job_id="b0c1"))
    path = journal.folder / f"{ENTRY.name}.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "schema": 2, "job_id": ["b0c1"]}))
    before = path.read_bytes()
    with pytest.raises(NewerRecord, match="has schema 2, but this Slipway reads 1"):
        journal.read(ENTRY.name)
    with pytest.raises(NewerRecord, match="has schema 2"), journal.locked(ENTRY.name, lambda: None):
        pytest.fail("it would be written over")
    assert path.read_bytes() == before


def test_an_entry_from_before_schemas_were_written_is_read(journal: Journal) -> None:
    journal.write(ENTRY)
    path = journal.folder / f"{ENTRY.name}.json"
    path.write_text(
        json.dumps({key: value for key, value in json.loads(path.read_text()).items() if key != "schema"})
    )
    assert journal.read(ENTRY.name) == ENTRY
