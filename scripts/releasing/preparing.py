"""Give the checkout its next version: in the version's file, the changelog, and the pages that show it.

The changelog's unreleased section becomes the version's section.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date
from pathlib import Path

from slipway.jobs.words.errors import SlipwayError

VERSION_FILE = Path("slipway", "_version.py")
CHANGELOG = Path("CHANGELOG.md")
_HEADING = re.compile(r"^## (\S+).*$", re.MULTILINE)
UNRELEASED = "Unreleased"
_NUMBERS = re.compile(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)")
_SAID = re.compile(r'^VERSION = "(.+)"$', re.MULTILINE)
# The version in pages: in names of a release's files, and in the output of `slipway --version`.
_SHOWN = re.compile(r"(slipway[- ])\d+\.\d+\.\d+(?=-py3|-docs|\.tar|\.cdx|\.provenance| \(extras: )")


def next_files(root: Path, version: str, day: date) -> dict[Path, str]:
    """Return the files that contain another version, with their new text; write nothing."""
    text = (root / VERSION_FILE).read_text(encoding="utf-8")
    found = _SAID.search(text)
    assert found, f"{VERSION_FILE} says no version"
    if not _NUMBERS.fullmatch(version) or _numbers(version) < _numbers(found[1]):
        raise SlipwayError(
            f"the version is '{version}'; allowed are three numbers such as 1.2.0, not below {found[1]}",
            hint="docs/releasing.md says which number changes when",
        )
    changelog = (root / CHANGELOG).read_text(encoding="utf-8")
    new = {
        CHANGELOG: with_release(changelog, version, day),
        VERSION_FILE: _SAID.sub(f'VERSION = "{version}"', text),
    }
    changed = {path: text for path, text in new.items() if text != (root / path).read_text(encoding="utf-8")}
    return {**changed, **pages_of_another(root, version)}


def pages_of_another(root: Path, version: str) -> dict[Path, str]:
    """Return the pages that show another version, with the text that shows this one."""
    pages = (root / "README.md", *sorted((root / "docs").rglob("*.md")))
    old = {page.relative_to(root): page.read_text(encoding="utf-8") for page in pages}
    new = {page: _SHOWN.sub(rf"\g<1>{version}", text) for page, text in old.items()}
    return {page: text for page, text in new.items() if text != old[page]}


def write_all(root: Path, files: Mapping[Path, str]) -> None:
    """Write all of the files or none: if anything interrupts this, restore the old text."""
    old = {path: (root / path).read_text(encoding="utf-8") for path in files}
    try:
        for path, text in files.items():
            (root / path).write_text(text, encoding="utf-8")
    except BaseException:
        for path, text in old.items():
            (root / path).write_text(text, encoding="utf-8")
        raise


def section_of(text: str, version: str) -> str:
    """Return the changelog's section of a version, without its heading."""
    found = list(_HEADING.finditer(text))
    for heading, following in zip(found, [*found[1:], None], strict=True):
        if heading[1] == version:
            return text[heading.end() : following.start() if following else len(text)].strip()
    raise SlipwayError(
        f"CHANGELOG.md has no section '## {version}'; it has {', '.join(each[1] for each in found)}",
        hint=f"scripts/release --prepare {version} makes it from '## {UNRELEASED}'",
    )


def with_release(text: str, version: str, day: date) -> str:
    """Return the changelog with its unreleased section as the section of this version."""
    if re.search(rf"^## {re.escape(version)}\b", text, re.MULTILINE):
        raise SlipwayError(
            f"CHANGELOG.md has a section '## {version}' already; a version is released once",
            hint="name the next version, or leave out --prepare to build this one",
        )
    if not section_of(text, UNRELEASED):
        raise SlipwayError(
            f"CHANGELOG.md says nothing below '## {UNRELEASED}'; a release says what is new",
            hint="write it there first",
        )
    return text.replace(f"## {UNRELEASED}", f"## {UNRELEASED}\n\n## {version} – {day.isoformat()}", 1)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))
