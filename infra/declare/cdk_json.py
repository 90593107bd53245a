"""Reads cdk.json itself, because the CDK silently keeps the last of two equal keys."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from slipway.containers.runtime.named_files import MissingFile, UnusableFile, read_text
from slipway.jobs.words.errors import InvalidConfig, Problem
from slipway.jobs.words.installation import PACKAGE

FILES = ("cdk.json", "cdk.context.json")
_MOST_BYTES = 1 << 20


@cache
def feature_flags() -> Mapping[str, object]:
    """Return the context of our own cdk.json: which of the CDK's changed behaviours are on."""
    context = json.loads((PACKAGE / "infra" / "feature_flags.json").read_text(encoding="utf-8"))["context"]
    assert isinstance(context, dict), "the file holds a context"
    return context


def refuse_repeated_keys(folder: Path) -> None:
    """Refuse a key that is in one object of the CDK's files twice, and name both lines."""
    if problems := [problem for name in FILES for problem in _problems(folder / name)]:
        raise InvalidConfig(problems)


def read_context(folder: Path) -> Mapping[str, object]:
    """Return the context of a project as the CDK's command line gives it, followed by the flags."""
    own = json.loads(read_text(folder / FILES[0], _MOST_BYTES)).get("context", {})
    return {**feature_flags(), **own}


def _problems(path: Path) -> Iterator[Problem]:
    try:
        text = read_text(path, _MOST_BYTES)
    except MissingFile:
        return
    except UnusableFile as error:
        yield Problem(where=path.name, message=error.message, hint=error.hint)
        return
    repeated: list[str] = []

    def note_repeats(pairs: list[tuple[str, object]]) -> dict[str, object]:
        keys = [key for key, _ in pairs]
        repeated.extend(key for key in dict.fromkeys(keys) if keys.count(key) > 1)
        return dict(pairs)

    try:
        json.loads(text, object_pairs_hook=note_repeats)
    except (ValueError, RecursionError) as error:
        yield Problem(where=path.name, message=f"is no JSON: {error}", hint="mend it, or take it from git")
        return
    for key in repeated:
        places = re.finditer(rf"{re.escape(json.dumps(key))}\s*:", text)
        lines = " and ".join(str(text.count("\n", 0, found.start()) + 1) for found in places)
        message = f"has {key!r} twice in one object, in lines {lines}"
        yield Problem(where=path.name, message=message, hint="keep one of them")
