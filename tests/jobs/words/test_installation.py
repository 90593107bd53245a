"""What is said of an installation that lacks something."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

import pytest

from slipway.jobs.words import installation
from slipway.jobs.words.errors import SlipwayError
from slipway.jobs.words.installation import (
    PACKAGE,
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
