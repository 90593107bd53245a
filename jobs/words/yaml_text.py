"""Plain values as YAML: objects, lists, texts, numbers. Texts are quoted as in JSON, which YAML contains."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

_INDENT = "  "


def to_yaml(value: Mapping[str, object]) -> str:
    return "".join(f"{line}\n" for line in _lines(value))


def _lines(value: object) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, each in value.items():
            yield from _entry(f"{key}:", each)
    elif isinstance(value, list):
        for each in value:
            first, *rest = _lines(each)
            yield f"- {first}"
            yield from (f"{_INDENT}{line}" for line in rest)
    else:
        yield json.dumps(value, ensure_ascii=False)


def _entry(head: str, value: object) -> Iterator[str]:
    if isinstance(value, Mapping | list) and value:
        yield head
        yield from (f"{_INDENT}{line}" for line in _lines(value))
    else:
        yield f"{head} {json.dumps(value, ensure_ascii=False)}"
