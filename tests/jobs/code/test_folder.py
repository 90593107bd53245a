"""The files of a folder that git keeps are sent; forbidden ones are refused by name before they are read."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

from slipway.jobs.code.folder import CannotShip, ignored_words, read_folder, words_of_skipped
from tests.jobs.code.projects import git, write

CODE = {"train.py": "print(1)\n", "model/net.py": "pass\n"}


def names(folder: Path) -> list[str]:
    return [file.name for file in read_folder(folder).files]


@pytest.mark.parametrize("is_repository", [False, True])
def test_what_git_ignores_stays_here_in_a_repository_or_not(tmp_path: Path, is_repository: bool) -> None:
    ignored = {".gitignore": "*.ckpt\n/out/\n", "model/.gitignore": "cache*\n!cache.py\n"}
    here = {"a.ckpt": "x", "out/log": "x", "model/cache.bin": "x", "model/cache.py": "pass\n"}
    write(tmp_path, {**CODE, **ignored, **here})
    if is_repository:
        git(tmp_path, "init")
    assert names(tmp_path) == [".gitignore", "model/.gitignore", "model/cache.py", "model/net.py", "train.py"]


def test_what_a_macs_finder_leaves_in_folders_is_no_part_of_the_code(tmp_path: Path) -> None:
    write(tmp_path, {**CODE, ".DS_Store": "x", "model/.DS_Store": "x"})
    assert names(tmp_path) == ["model/net.py", "train.py"]
    git(tmp_path, "init")
    assert names(tmp_path) == ["model/net.py", "train.py"]


def test_committed_changed_and_new_files_travel_as_they_are_now_and_deleted_ones_do_not(
    tmp_path: Path,
) -> None:
    write(tmp_path, {**CODE, "old.py": "pass\n"})
    git(tmp_path, "init")
    git(tmp_path, "add", "--all")
    git(tmp_path, "commit", "--message", "one")
    (tmp_path / "old.py").unlink()
    write(tmp_path, {"new.py": "pass\n"})
    assert names(tmp_path) == ["model/net.py", "new.py", "train.py"]
    assert names(tmp_path / "model") == ["net.py"]


def test_a_repository_inside_travels_with_its_own_ignore_rules(tmp_path: Path) -> None:
    write(tmp_path, {**CODE, "lib/a.py": "pass\n", "lib/b.tmp": "x", "lib/.gitignore": "*.tmp\n"})
    git(tmp_path, "init")
    git(tmp_path / "lib", "init")
    assert names(tmp_path) == ["lib/.gitignore", "lib/a.py", "model/net.py", "train.py"]


def test_a_hook_of_another_repository_does_not_lead_git_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, CODE)
    git(tmp_path, "init")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    assert names(tmp_path) == sorted(CODE)


@pytest.mark.parametrize(
    "name", [".env", "conf/.env.prod", "tls/server.PEM", "id_rsa", ".aws/config", "credentials"]
)
def test_what_looks_like_a_secret_is_refused_by_name_unless_it_is_asked_for(
    tmp_path: Path, name: str
) -> None:
    write(tmp_path, {**CODE, name: "hush"})
    with pytest.raises(CannotShip, match=re.escape(name)) as refusal:
        read_folder(tmp_path)
    assert "hush" not in refusal.value.message
    assert "--include-secrets" in refusal.value.hint
    assert name in {file.name for file in read_folder(tmp_path, include_secrets=True).files}


def test_examples_public_keys_and_code_about_secrets_are_no_secrets(tmp_path: Path) -> None:
    harmless = {".env.example": "x", "id_rsa.pub": "x", "credentials.py": "pass\n", "keys.py": "pass\n"}
    assert len(names(write(tmp_path, harmless))) == len(harmless)


def test_a_folder_of_three_gigabytes_is_refused_at_once_with_its_largest_files(tmp_path: Path) -> None:
    write(tmp_path, CODE)
    for name, size in (("data.bin", 2_900_000_000), ("more.bin", 100_000_000)):
        with (tmp_path / name).open("wb") as file:
            file.truncate(size)  # a sparse file: large, without a block on the disk
    with pytest.raises(
        CannotShip, match=r"3,000\.0 MB .*at most 200 MB.*data\.bin \(2,900\.0 MB\), more\.bin"
    ):
        read_folder(tmp_path)
    assert read_folder(tmp_path, limit_mb=3_001).size_bytes > 3_000_000_000


def test_links_inside_travel_and_others_are_refused_by_name(tmp_path: Path) -> None:
    project = write(tmp_path / "project", {**CODE, ".gitignore": "*.bin\n", "ignored.bin": "x"})
    (project / "link.py").symlink_to("model/net.py")
    (project / "folder").symlink_to("model")
    assert {file.name: file.link for file in read_folder(project).files if file.link} == {
        "link.py": "model/net.py",
        "folder": "model",
    }
    (tmp_path / "outside.py").write_text("x")
    for target, said in (
        ("nowhere.py", "leads to nowhere.py, which does not exist"),
        ("../outside.py", "out of the folder"),
        (str(project / "train.py"), "out of the folder"),
        ("odd", "which does not exist"),
        ("ignored.bin", "which git ignores"),
    ):
        (project / "odd").symlink_to(target)
        with pytest.raises(CannotShip, match=rf"link odd leads to .*{said.split(' to ')[-1]}"):
            read_folder(project)
        (project / "odd").unlink()


def test_an_environment_in_the_folder_is_refused_with_the_line_that_leaves_it_out(tmp_path: Path) -> None:
    write(tmp_path, {**CODE, ".venv/pyvenv.cfg": "home = /usr/bin\n"})
    (tmp_path / ".venv/bin").mkdir()
    (tmp_path / ".venv/bin/python").symlink_to(sys.executable)
    with pytest.raises(CannotShip, match="out of the folder") as refusal:
        read_folder(tmp_path)
    assert "echo '.venv/' >> .gitignore" in refusal.value.hint
    with (tmp_path / ".venv/large.so").open("wb") as file:
        file.truncate(300_000_000)
    with pytest.raises(CannotShip, match="at most 200 MB") as refusal:
        read_folder(tmp_path)
    assert "echo '.venv/' >> .gitignore" in refusal.value.hint


def test_a_submodule_that_nobody_checked_out_is_left_out_and_said(tmp_path: Path) -> None:
    library, project = (write(tmp_path / name, CODE) for name in ("library", "project"))
    for folder in (library, project):
        git(folder, "init")
        git(folder, "add", "--all")
        git(folder, "commit", "--message", "Begin")
    git(project, "-c", "protocol.file.allow=always", "submodule", "add", str(library), "lib")
    assert "lib/train.py" in names(project)
    git(project, "submodule", "deinit", "--force", "lib")
    (said,) = words_of_skipped(read_folder(project))
    assert said == "lib is a submodule that is not checked out, and is not sent: git submodule update --init"


def test_a_fifo_that_took_the_place_of_a_file_is_left_out_and_said(tmp_path: Path) -> None:
    write(tmp_path, CODE)
    git(tmp_path, "init")
    git(tmp_path, "add", "--all")
    (tmp_path / "train.py").unlink()
    os.mkfifo(tmp_path / "train.py")
    assert read_folder(tmp_path).skipped == ("train.py",)


def test_a_folder_without_anything_to_send_says_why(tmp_path: Path) -> None:
    with pytest.raises(CannotShip, match="holds no file") as refusal:
        read_folder(write(tmp_path, {**CODE, ".gitignore": "*\n"}))
    assert "git ignores" in refusal.value.hint
    with pytest.raises(CannotShip, match="is no folder"):
        read_folder(tmp_path / "nowhere")


def test_a_folder_that_cannot_be_read_is_refused_and_not_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Root may read every folder, so a git that warns stands in for one without permission."""
    warns = write(
        tmp_path / "bin", {"git": "#!/bin/sh\necho \"warning: could not open directory 'a/'\" >&2\n"}
    )
    (warns / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{warns}{os.pathsep}{os.environ['PATH']}")
    with pytest.raises(CannotShip, match=r"git did not list .*could not open directory 'a/'"):
        read_folder(write(tmp_path / "project", CODE))


def test_without_git_it_says_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CannotShip, match="git is not installed"):
        read_folder(write(tmp_path, CODE))


def test_a_word_of_the_command_that_names_an_ignored_file_is_found(tmp_path: Path) -> None:
    write(tmp_path, {**CODE, ".gitignore": "local*\n", "local.py": "pass\n"})
    folder = read_folder(tmp_path)
    assert list(ignored_words(folder, ["python", "./local.py", "train.py", "--x=local.py"])) == ["./local.py"]
