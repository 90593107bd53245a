"""Read and write CHANGELOG.md: what is unreleased becomes a version's section."""

from __future__ import annotations

import re
from datetime import date

from slipway.jobs.words.errors import SlipwayError

_HEADING = re.compile(r"^## (\S+).*$", re.MULTILINE)
UNRELEASED = "Unreleased"


def section_of(text: str, version: str) -> str:
    """Return what the changelog says of a version, without its heading."""
    found = list(_HEADING.finditer(text))
    for heading, following in zip(found, [*found[1:], None], strict=True):
        if heading[1] == version:
            return text[heading.end() : following.start() if following else len(text)].strip()
    raise SlipwayError(
        f"CHANGELOG.md has no section '## {version}'; it has {', '.join(each[1] for each in found)}",
        hint=f"scripts/release --prepare {version} makes it from '## {UNRELEASED}'",
    )


def with_release(text: str, version: str, day: date) -> str:
    """Return the changelog in which what was unreleased is the section of this version."""
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
