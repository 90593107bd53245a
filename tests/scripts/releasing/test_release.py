"""A release is built from a commit, complete or absent, the same each time, and tagged on request."""

from __future__ import annotations

import json
import os
import subprocess
import tarfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from hashlib import sha256
from pathlib import Path

import pytest

from scripts.releasing import __main__ as releasing
from scripts.releasing import preparing
from scripts.releasing.preparing import section_of, with_release
from slipway._version import TAG, VERSION
from slipway.jobs.words.errors import SlipwayError
from tests.scripts.releasing.conftest import Project, Release

NAME = f"slipway-{VERSION}"
FILES = {
    "SHA256SUMS",
    f"{NAME}-py3-none-any.whl",
    f"{NAME}-docs.tar.gz",
    f"{NAME}.cdx.json",
    f"{NAME}.provenance.json",
    f"{NAME}.tar.gz",
}


def test_what_is_built_is_named_checked_and_the_same_again(
    project: Project, release: Release, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    release([])
    made = tmp_path / "out" / NAME
    assert {path.name for path in made.iterdir()} == FILES
    assert {path.name for path in made.parent.iterdir()} == {NAME}
    assert not project.git("tag")
    assert not project.git("status", "--porcelain")
    checked = subprocess.run(["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=made, check=False)
    assert checked.returncode == 0
    with zipfile.ZipFile(made / f"{NAME}-py3-none-any.whl") as wheel:
        assert f"Version: {VERSION}\n".encode() in wheel.read(f"{NAME}.dist-info/METADATA")
    with tarfile.open(made / f"{NAME}.tar.gz") as sdist:
        names = {name.removeprefix(f"{NAME}/") for name in sdist.getnames()}
    assert {"CHANGELOG.md", "PKG-INFO", "slipway/_version.py"} <= names
    assert not [name for name in names if name.startswith(("docs", "scripts"))]
    _is_described(made, project)
    with _umask(0o077):
        release([])  # it compares the checksums, and refuses if one differs
    assert capsys.readouterr().out.count(NAME) == 2 * (len(FILES) - 1)


def test_another_commit_is_not_written_over_a_release(
    project: Project, release: Release, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(releasing, "make_unfinished", _make_nothing)
    (tmp_path / "out" / NAME).mkdir(parents=True)
    (tmp_path / "out" / NAME / "SHA256SUMS").write_text("other\n", encoding="ascii")
    with pytest.raises(SlipwayError, match="is there and differs from what this commit gives"):
        release([])
    assert (tmp_path / "out" / NAME / "SHA256SUMS").read_text(encoding="ascii") == "other\n"


def test_an_interrupted_build_leaves_nothing(
    release: Release, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(releasing, "build", interrupt)
    with pytest.raises(KeyboardInterrupt):
        releasing.make(tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []


def test_the_tag_is_the_last_step_says_what_is_new_and_is_set_once(
    project: Project, release: Release, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(releasing, "make_unfinished", _make_nothing)
    release(["--tag"])
    told = project.git("tag", "--list", "--format=%(contents)")
    assert told == f"Slipway {VERSION}\n\n### Added\n\n- All."
    release(["--tag"])
    assert "HEAD has the tag" in capsys.readouterr().err


def test_a_dry_run_says_each_step_and_does_none(
    project: Project, release: Release, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    release(["--dry-run", "--tag", "--checks"])
    steps = [line.split()[2] for line in capsys.readouterr().err.splitlines()]
    assert steps == ["run", "clone", "build", "write", "move", "tag"]
    assert not (tmp_path / "out").exists()
    assert not project.git("tag")


def test_a_folder_is_named_from_where_the_caller_is(
    project: Project, release: Release, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    here = Path.cwd()
    try:
        release(["--dry-run", "--out", "REL", "--from", str(tmp_path)])
    finally:
        os.chdir(here)
    assert f"would move all to {tmp_path / 'REL' / NAME}" in capsys.readouterr().err


def test_checks_that_fail_end_the_release(project: Project, release: Release, tmp_path: Path) -> None:
    project.write(".ci/run", "#!/bin/sh\nexit 3\n")
    (project.folder / ".ci" / "run").chmod(0o755)
    project.git("add", ".ci")
    project.git("commit", "--quiet", "--message=two")
    with pytest.raises(SlipwayError, match=r"\.ci/run ended with 3"):
        release(["--checks"])
    assert not (tmp_path / "out").exists()


def test_a_checkout_with_changes_is_refused(project: Project, release: Release) -> None:
    project.write("new", "")
    with pytest.raises(SlipwayError, match=r"changes that are in no commit: \?\? new"):
        release(["--dry-run"])


def test_a_version_without_a_section_of_the_changelog_is_refused(project: Project, release: Release) -> None:
    project.write("CHANGELOG.md", "# Changelog\n\n## Unreleased\n\n- All.\n")
    project.git("commit", "--quiet", "--all", "--message=two")
    with pytest.raises(SlipwayError, match=rf"no section '## {VERSION}'; it has Unreleased"):
        release(["--dry-run"])


def test_a_page_that_shows_another_version_is_refused(project: Project, release: Release) -> None:
    project.write("README.md", "slipway 0.9.1 (extras: none)\n")
    project.git("commit", "--quiet", "--all", "--message=two")
    with pytest.raises(SlipwayError, match=f"README.md shows another version than {VERSION}"):
        release(["--dry-run"])


def test_a_commit_of_another_version_s_tag_is_refused(project: Project, release: Release) -> None:
    project.git("tag", "v0.0.9")
    with pytest.raises(SlipwayError, match=f"tagged v0.0.9, and slipway/_version.py says {VERSION}"):
        release(["--dry-run"])


def test_a_version_that_was_released_from_another_commit_is_refused(
    project: Project, release: Release
) -> None:
    project.git("tag", TAG)
    release(["--dry-run"])
    project.git("commit", "--quiet", "--allow-empty", "--message=two")
    with pytest.raises(SlipwayError, match=f"{TAG} is another commit than HEAD"):
        release(["--dry-run"])


def test_preparing_changes_the_version_the_changelog_and_the_pages_that_show_it(
    project: Project, release: Release
) -> None:
    project.write("CHANGELOG.md", project.read("CHANGELOG.md").replace("leased\n", "leased\n\n- New.\n"))
    project.git("commit", "--quiet", "--all", "--message=two")
    release(["--prepare", "77.0.1"])
    assert project.git("diff", "--name-only").split() == [
        "CHANGELOG.md",
        "README.md",
        "docs/page.md",
        "slipway/_version.py",
    ]
    changelog = project.read("CHANGELOG.md")
    assert section_of(changelog, "77.0.1") == "- New."
    assert section_of(changelog, "Unreleased") == ""
    assert 'VERSION = "77.0.1"\n' in project.read("slipway/_version.py")
    assert "slipway 77.0.1 (extras: none)" in project.read("README.md")
    assert project.read("docs/page.md").count("slipway-77.0.1") == 2


@pytest.mark.parametrize("version", ["1.2", "v77.0.0", "77.0.0rc1", "0.9.9", "77.00.1"])
def test_a_version_that_is_none_or_older_is_refused(project: Project, version: str) -> None:
    with pytest.raises(SlipwayError, match=f"the version is '{version}'; allowed are three numbers"):
        preparing.next_files(project.folder, version, date(2026, 11, 26))


def test_an_interrupted_preparation_takes_back_what_it_wrote(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrote = Path.write_text

    def write(path: Path, text: str, encoding: str) -> int:
        if text == "second":
            raise KeyboardInterrupt
        return wrote(path, text, encoding=encoding)

    monkeypatch.setattr(Path, "write_text", write)
    with pytest.raises(KeyboardInterrupt):
        preparing.write_all(project.folder, {Path("README.md"): "first", Path("CHANGELOG.md"): "second"})
    assert not project.git("status", "--porcelain")


def test_nothing_new_or_a_second_section_is_no_release() -> None:
    day = date(2026, 11, 26)
    with pytest.raises(SlipwayError, match="says nothing below '## Unreleased'"):
        with_release("## Unreleased\n\n## 1.0.0 – 2026-11-26\n\n- All.\n", "1.1.0", day)
    with pytest.raises(SlipwayError, match=r"has a section '## 1\.0\.0' already"):
        with_release("## Unreleased\n\n- New.\n\n## 1.0.0 – 2026-11-26\n\n- All.\n", "1.0.0", day)


def _is_described(made: Path, project: Project) -> None:
    """The SBOM has each locked package once, and provenance the digests of the files and the commit."""
    bill = json.loads((made / f"{NAME}.cdx.json").read_text(encoding="utf-8"))
    packages = {each["purl"]: each for each in bill["components"]}
    assert {purl: each["scope"] for purl, each in packages.items()} == {
        "pkg:pypi/first-thing@1.2": "required",
        "pkg:pypi/second@2.0": "optional",
        "pkg:pypi/torch@2.13.0": "optional",
    }
    assert [each["value"] for each in packages["pkg:pypi/first-thing@1.2"]["properties"]] == [
        "submit",
        "training",
    ]
    (own,) = [each for each in bill["dependencies"] if each["ref"] == "slipway"]
    assert set(own["dependsOn"]) == set(packages)
    about = json.loads((made / f"{NAME}.provenance.json").read_text(encoding="utf-8"))
    for subject in about["subject"]:
        assert sha256((made / subject["name"]).read_bytes()).hexdigest() == subject["digest"]["sha256"]
    assert {each["name"] for each in about["subject"]} == FILES - {"SHA256SUMS", f"{NAME}.provenance.json"}
    built_from = about["predicate"]["buildDefinition"]["externalParameters"]
    assert built_from == {"version": VERSION, "commit": project.git("rev-parse", "HEAD")}


def _make_nothing(work: Path) -> Path:
    (work / NAME).mkdir(parents=True)
    (work / NAME / "SHA256SUMS").write_text("", encoding="ascii")
    return work / NAME


@contextmanager
def _umask(mode: int) -> Iterator[None]:
    before = os.umask(mode)
    try:
        yield
    finally:
        os.umask(before)
