"""One file has the version, and everything that shows it agrees; anything but a release shows its commit."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from slipway._version import TAG, VERSION, version_of_source
from slipway.jobs.cli.version import describe
from tests.architecture import tracked
from tests.installed import git


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Make a repository with one commit."""
    (tmp_path / "file").write_text("one\n", encoding="utf-8")
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "add", "file")
    git(tmp_path, "commit", "--quiet", "--message=one")
    return tmp_path


def test_a_clone_without_tags_says_its_commit(checkout: Path) -> None:
    commit = git(checkout, "rev-parse", "HEAD")
    assert version_of_source(checkout) == f"{VERSION}+g{commit[:9]}"


def test_the_commit_of_the_tag_is_the_release_and_no_other_tag_makes_one(checkout: Path) -> None:
    git(checkout, "tag", f"{TAG}1")
    assert version_of_source(checkout) != VERSION
    git(checkout, "tag", TAG)
    assert version_of_source(checkout) == VERSION
    git(checkout, "commit", "--quiet", "--allow-empty", "--message=two")
    assert version_of_source(checkout) == f"{VERSION}+g{git(checkout, 'rev-parse', 'HEAD')[:9]}"


def test_a_changed_checkout_of_the_tag_is_no_release(checkout: Path) -> None:
    git(checkout, "tag", TAG)
    (checkout / "file").write_text("two\n", encoding="utf-8")
    assert re.fullmatch(rf"{re.escape(VERSION)}\+g[0-9a-f]{{9}}\.dirty", version_of_source(checkout))


def test_a_copy_without_git_does_not_call_itself_the_release(checkout: Path) -> None:
    (checkout / ".git").rename(checkout / "was-git")
    assert version_of_source(checkout) == f"{VERSION}+unknown"


def test_a_source_distribution_keeps_the_version_that_it_was_made_with(tmp_path: Path) -> None:
    about = "Metadata-Version: 2.4\nName: slipway\nVersion: 0.7.0+g0123456789\n\nVersion: of the text\n"
    (tmp_path / "PKG-INFO").write_text(about, encoding="utf-8")
    assert version_of_source(tmp_path) == "0.7.0+g0123456789"


def test_the_package_says_its_version_as_the_command_does() -> None:
    import slipway

    assert describe().startswith(f"{slipway.__version__} (extras: ")
    assert "__version__" in dir(slipway)
    asked = "import slipway, sys; assert 'slipway.jobs.cli' not in sys.modules; print(slipway.__version__)"
    said = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True).stdout
    assert said.strip() == slipway.__version__


def test_the_changelog_s_newest_release_and_every_page_that_shows_a_version_agree() -> None:
    releases = re.findall(r"^## (\d\S*)", tracked.text("CHANGELOG.md"), re.MULTILINE)
    assert releases[0] == VERSION
    assert f"slipway {VERSION} (extras: " in tracked.text("README.md")
    pages = "".join(tracked.text(path) for path in tracked.paths(".md"))
    assert set(re.findall(r"slipway-([0-9][0-9.]*)-py3", pages)) == {VERSION}
