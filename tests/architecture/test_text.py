"""No tracked file holds unreadable bytes, paths of one machine or addresses of package registries."""

from __future__ import annotations

import re

import pytest

from tests.architecture import tracked

IMAGES = (".png", ".jpg", ".ico")
TEXTS = [path for path in tracked.paths() if not path.endswith(IMAGES)]
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]")

# Exceptions: a first-boot script and an image have a /tmp of their own.
OWN_TMP = ("tests/", "infra/boot/", "infra/components/", "containers/")
MACHINE_PATHS = re.compile(r"(?<![\w.\-}])/(?:work|home|root|Users)/\w|(?<![\w.\-}])/work\b(?!/)")
TMP = re.compile(r"(?<![\w.\-}$])/tmp/")
REGISTRIES = re.compile(
    r"pypi\.org|pythonhosted\.org|registry\.npmjs\.org|registry\.yarnpkg\.com|deb\.debian\.org|(?<!emit-)index-url"
)
NAMED_ON_PURPOSE = "tests/architecture/test_text.py"


def lines_with(pattern: re.Pattern[str], excused: tuple[str, ...] = ()) -> list[str]:
    return [
        f"{path}:{number}: {line.strip()[:80]}"
        for path in TEXTS
        if path != NAMED_ON_PURPOSE and not path.startswith(excused or ("\0",))
        for number, line in enumerate(tracked.text(path).splitlines(), start=1)
        if pattern.search(line)
    ]


def test_every_file_is_utf_8_and_holds_no_control_character() -> None:
    assert not [path for path in TEXTS if CONTROL.search(tracked.text(path).replace("\n", ""))]


def test_every_file_ends_its_last_line() -> None:
    unended = [path for path in TEXTS if tracked.text(path) and not tracked.text(path).endswith("\n")]
    assert not unended


def test_no_file_names_a_path_of_one_machine() -> None:
    assert not lines_with(MACHINE_PATHS)
    assert not lines_with(TMP, excused=OWN_TMP)


def test_no_file_names_a_package_registry() -> None:
    """Each user decides where to install from: a mirror, a proxy, an index of their own."""
    assert not lines_with(REGISTRIES)


@pytest.mark.parametrize(
    ("pattern", "line"),
    [
        (MACHINE_PATHS, "cd /work/main"),
        (MACHINE_PATHS, "see '/home/ann/.aws'"),
        (TMP, 'open("/tmp/log")'),
        (REGISTRIES, "pip install --index-url https://example.com"),
        (CONTROL, "a\x1b[31m"),
    ],
)
def test_each_pattern_finds_what_it_is_for(pattern: re.Pattern[str], line: str) -> None:
    assert pattern.search(line)
