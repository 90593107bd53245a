"""Refuses a Dockerfile that reaches out of its folder, which is all that a build has of this machine.

Docker would report it only in the cloud, minutes later, or would use another file than the user meant.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

from slipway.containers.runtime.named_files import UnusableFile, read_text
from slipway.jobs.words.errors import SlipwayError
from slipway.jobs.words.text import decode_json, printable

_MOST_BYTES = 1 << 20
_ESCAPE = re.compile(r"#\s*escape\s*=\s*(`)\s*", re.IGNORECASE)
_HEREDOC = re.compile(r"<<-?\s*([\"']?)([A-Za-z_][A-Za-z0-9_]*)\1")
_COPIES = ("COPY", "ADD")
_FROM_ELSEWHERE = "--from="  # copies from another stage or image, which has its own files
_BASE = "name an image of a registry, such as FROM python:3.12-slim"
_SHOWN = 80


class BadImage(SlipwayError):
    """Reports a folder of images/ from which no image can be built."""

    exit_code = 2


def refuse_leaving(where: str, path: Path) -> None:
    """Refuse an instruction that names a path outside the folder, and a base image that is a path."""
    try:
        text = read_text(path, _MOST_BYTES)
    except UnusableFile as refusal:
        raise BadImage(refusal.message.replace(str(path), f"{where}/Dockerfile"), hint=refusal.hint) from None
    bases = 0
    for number, words in _instructions(text):
        name, rest = words[0].upper(), [word for word in words[1:] if not word.startswith("--")]
        bases += name == "FROM"
        if wrong := _wrong(name, rest, words):
            said = printable(" ".join(words)[:_SHOWN])
            raise BadImage(f"{where}/Dockerfile:{number}: {said} {wrong[0]}", hint=wrong[1])
    if not bases:
        raise BadImage(f"{where}/Dockerfile has no FROM", hint=_BASE)


def _wrong(name: str, rest: list[str], words: list[str]) -> tuple[str, str] | None:
    """Return what is wrong with an instruction, and how to correct it."""
    if name == "FROM":
        is_path = not rest or rest[0].startswith((".", "/", "~")) or ".." in rest[0].split("/")
        return ("names no image", _BASE) if is_path else None
    if name not in _COPIES or any(word.startswith(_FROM_ELSEWHERE) for word in words):
        return None
    if any(".." in source.split("/") and "://" not in source for source in _sources(rest)):
        return "leaves the folder, which alone is sent", "put a copy into the folder"
    return None


def _instructions(text: str) -> Iterator[tuple[int, list[str]]]:
    """Yield each instruction with its line: continuations joined, without comments and here-documents."""
    escape = "`" if _ESCAPE.fullmatch(text.partition("\n")[0].strip()) else "\\"
    lines = enumerate((line.strip() for line in text.splitlines()), 1)
    for number, line in lines:
        if not line or line.startswith("#"):
            continue
        words = line
        while words.endswith(escape):
            further = next((other for _, other in lines if not other.startswith("#")), "")
            words = f"{words.removesuffix(escape)} {further}"
        for _, end in _HEREDOC.findall(words):
            next((other for _, other in lines if other == end), None)
        if words.split():
            yield number, words.split()


def _sources(words: list[str]) -> list[str]:
    """Return the sources of a COPY or ADD: all but the last word, in either of its two forms."""
    text = " ".join(words)
    if text.startswith("["):
        try:
            found = decode_json(text)
        except ValueError:
            found = None
        if isinstance(found, list) and all(isinstance(word, str) for word in found):
            return found[:-1]
    try:
        return shlex.split(text)[:-1]
    except ValueError:
        return words[:-1]
