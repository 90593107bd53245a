"""Reads until when publishers support what is pinned: the table [support] of each lock, and set-up's tools.

Dates are written down with their sources and never computed; a component without a published date is in
`unknown`. A component that no other table of the lock names is written with its version, such as "ubuntu
22.04". Another tool is a row of TOOLS. Only preflight compares the dates with a clock.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path

NOTICE = timedelta(days=90)
SUPPORT = "support"
UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pinned:
    """Describes a pinned version; `until` is None if its publisher names no day."""

    image: str  # a folder of containers/images, or what else pins it
    component: str
    version: str
    until: date | None

    @property
    def words(self) -> str:
        return f"{self.component} {self.version} of {self.image}"


SET_UP = "set-up"
# Tools with which templates are deployed, pinned in scripts/locks and package.json.
TOOLS = (
    # AWS CDK developer guide, "Supported Node.js versions for the AWS CDK".
    Pinned(image=SET_UP, component="node", version="24", until=date(2028, 10, 30)),
    Pinned(image=SET_UP, component="aws-cdk", version="2", until=None),
)


def pinned_versions(containers: Path, images: Sequence[str]) -> tuple[Pinned, ...]:
    """Return what the valid locks of these images pin, in the order of their tables."""
    found = []
    for image in images:
        path = containers / "images" / image / "lock.toml"
        tables = tomllib.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
        versions, days = _versions(tables), dict(tables.get(SUPPORT, {}))
        unknown = days.pop(UNKNOWN, [])
        for component in [*(name for name in versions if name in unknown), *days]:
            name, _, own_version = component.partition(" ")
            day = days.get(component)
            pin = Pinned(
                image=image,
                component=name if own_version else component,
                version=own_version or versions.get(component, ""),
                until=date.fromisoformat(day) if day else None,
            )
            found.append(pin)
    return tuple(found)


def support_mistakes(tables: Mapping[str, object]) -> Iterator[str]:
    """Yield what is wrong with a lock's [support], in which each pinned version must have one row."""
    table = tables.get(SUPPORT, {})
    days = dict(table) if isinstance(table, Mapping) else {}
    unknown = days.pop(UNKNOWN, [])
    if not isinstance(unknown, list):
        yield f"has {UNKNOWN} = {unknown!r}, not a list of names"
        return
    versions = _versions(tables)
    for component, day in days.items():
        if not _is_day(day):
            yield f"has {component} = {day!r}, not a day such as '2027-04-30'"
        if component not in versions and " " not in component:
            yield f"has {component}, of which the lock names no version; write it behind the name"
        if component in unknown:
            yield f"has {component} twice"
    for component in versions:
        if component not in days and component not in unknown:
            yield f"lacks {component}; write its day, or put it in {UNKNOWN}"
    for component in unknown:
        if component not in versions:
            yield f"has {component} in {UNKNOWN}, which the lock does not pin"


def _is_day(text: object) -> bool:
    try:
        return isinstance(text, str) and date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


def _versions(tables: Mapping[str, object]) -> Mapping[str, str]:
    """Return the versions of the container and of the AMI; one that both name is there once."""
    found = [table for name in ("image", "host") if isinstance(table := tables.get(name), Mapping)]
    return {str(component): str(version) for table in found for component, version in table.items()}


def ending(pinned: Sequence[Pinned], today: date) -> tuple[Pinned, ...]:
    """Return the versions whose support has ended or ends soon, the earliest first."""
    dated = [(each.until, each) for each in pinned if each.until is not None]
    found = [(until, each) for until, each in dated if until - today <= NOTICE]
    return tuple(each for _, each in sorted(found, key=lambda pair: pair[0]))
