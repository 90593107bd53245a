"""What is said of an installation that lacks something, and which project a command works for."""

from __future__ import annotations

import json
from importlib import metadata
from pathlib import Path

import pytest

from slipway.jobs.words import installation
from slipway.jobs.words.errors import SlipwayError
from slipway.jobs.words.installation import (
    PACKAGE,
    NoProject,
    containers_folder,
    find_containers,
    find_project,
    installed_extras,
    is_own_file,
    refuse_incomplete,
    refuse_without,
)


def test_this_checkout_has_all_data_files() -> None:
    refuse_incomplete()


def test_a_package_without_its_data_files_is_refused_by_the_first_that_is_missing(tmp_path: Path) -> None:
    with pytest.raises(SlipwayError, match="containers/images/cpu/Dockerfile is missing") as refusal:
        refuse_incomplete(tmp_path)
    assert "pip install --force-reinstall" in refusal.value.hint


def test_only_files_of_the_package_are_its_own(tmp_path: Path) -> None:
    assert is_own_file(str(PACKAGE / "jobs" / "words" / "catalogue" / "nothing.csv"))
    assert not is_own_file(str(tmp_path / "nothing.csv"))


def test_an_extra_is_installed_once_all_its_packages_are(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [
        "click>=8.2",
        "pytest>=1; extra == 'whole'",
        'pytest[testing]; python_version >= "3.8" and extra == "half"',
        'no-such-package-of-anybody==1; extra == "half"',
    ]
    monkeypatch.setattr(metadata, "requires", lambda _name: lines)
    assert installed_extras() == ("whole",)
    refuse_without("whole", "a test")
    with pytest.raises(
        SlipwayError, match="a test needs no-such-package-of-anybody, which is not"
    ) as refusal:
        refuse_without("half", "a test")
    assert refusal.value.hint.startswith("pip install 'slipway[half]'")


def test_a_package_that_only_stands_on_the_path_is_not_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installation, "NAME", "no-such-package-of-anybody")
    refuse_without("yard", "a test")
    assert installed_extras() == ()


# Which project a command works for, from whichever folder it is started.
ROOT = Path(__file__).parents[3]


def make_project(folder: Path, name: object = "mine-1") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "cdk.json").write_text(json.dumps({"context": {"slipway:project": name}}))
    (folder / "clusters.py").touch()
    return folder


def test_the_nearest_project_upward_is_found(tmp_path: Path) -> None:
    outer, inner = make_project(tmp_path / "outer"), make_project(tmp_path / "outer" / "inner", "other-2")
    (inner / "deep" / "er").mkdir(parents=True)
    assert find_project(inner / "deep" / "er").folder == inner
    assert find_project(inner).name == "other-2"
    assert find_project(outer).name == "mine-1"


def test_clusters_without_a_cdk_json_and_a_foreign_cdk_app_are_no_project(tmp_path: Path) -> None:
    project = make_project(tmp_path)
    (project / "library").mkdir()
    (project / "library" / "clusters.py").touch()
    (project / "website").mkdir()
    (project / "website" / "cdk.json").write_text("{}")
    assert find_project(project / "library").folder == project
    assert find_project(project / "website").folder == project


def test_this_checkout_is_a_project_of_itself_from_any_folder_in_it() -> None:
    found = find_project(ROOT / "infra" / "declare")
    assert (found.folder, found.is_checkout, found.name) == (ROOT, True, None)
    assert found.containers == ROOT / "containers"


def test_without_a_project_the_checkout_that_slipway_is_installed_from_serves(tmp_path: Path) -> None:
    assert find_project(tmp_path).folder == ROOT


def test_without_project_and_checkout_it_says_how_to_begin_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(installation, "PACKAGE", tmp_path / "site-packages" / "slipway")
    with pytest.raises(NoProject, match=r"has a cdk\.json and a clusters\.py") as refusal:
        find_project(tmp_path)
    assert "slipway init" in refusal.value.hint
    monkeypatch.chdir(tmp_path)
    assert find_containers() == containers_folder()


@pytest.mark.parametrize("name", ["My Project", "a" * 65, 7, "a--b", "a\n"])
def test_a_name_that_no_tag_can_carry_is_refused_with_its_file(tmp_path: Path, name: object) -> None:
    with pytest.raises(SlipwayError, match="small letters, digits and single hyphens") as refusal:
        _ = find_project(make_project(tmp_path, name)).name
    assert str(tmp_path / "cdk.json") in refusal.value.message


@pytest.mark.parametrize("text", ["{", "[]", '{"context": []}'])
def test_a_cdk_json_that_is_none_is_refused(tmp_path: Path, text: str) -> None:
    make_project(tmp_path)
    (tmp_path / "cdk.json").write_text(text)
    with pytest.raises(SlipwayError, match=r"cdk\.json cannot be read"):
        _ = find_project(tmp_path).name
