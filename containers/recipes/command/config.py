"""The settings of a user's own command: read strictly, all mistakes told at once."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from slipway.containers.runtime.errors import Refusal
from slipway.containers.training.settings import (
    Choice,
    InvalidSettings,
    ValueKind,
    read_values,
    split_arguments,
)

_YES, _NO = "yes", "no"
_ARCHIVE = re.compile(r"(?:s3://|/)[^\x00-\x1f\x7f]*?([0-9a-f]{64})\.tar\.gz", re.ASCII)
_LONGEST_NAME = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandConfig:
    source: str  # where the archive of the folder lies
    digest: str  # of the archive, unpacked
    command: tuple[str, ...]
    is_per_node: bool  # one process a node, for a command that starts the others itself
    requirements: str | None  # a file of the folder that pip installs first


@dataclass(frozen=True, slots=True)
class _Archive:
    wanted: str = "s3://bucket/… or a full path, which ends in the SHA-256 of the archive and .tar.gz"

    def read(self, text: str) -> str | None:
        return text if _ARCHIVE.fullmatch(text) else None


@dataclass(frozen=True, slots=True)
class _Words:
    wanted: str = 'the words of a command as a JSON list, such as ["python", "train.py"]'

    def read(self, text: str) -> str | None:
        try:
            words = json.loads(text)
        except (ValueError, RecursionError):
            return None
        are_words = isinstance(words, list) and all(isinstance(word, str) for word in words)
        return text if are_words and words and words[0] and not any("\0" in word for word in words) else None


@dataclass(frozen=True, slots=True)
class _FileOfTheFolder:
    wanted: str = "the name of a file in the folder, without '..'"

    def read(self, text: str) -> str | None:
        parts = text.split("/")
        is_inside = not {"", ".", ".."} & set(parts) and "\0" not in text
        return text if is_inside and len(text) <= _LONGEST_NAME else None


SETTINGS: Mapping[str, ValueKind] = {
    "source": _Archive(),
    "command": _Words(),
    "per_node": Choice((_NO, _YES)),
    "requirements": _FileOfTheFolder(),
}
_NEEDED = ("source", "command")


def decode_arguments(arguments: Sequence[str]) -> CommandConfig:
    """Decode `key=value` arguments as `--set` gives them; raise InvalidSettings with every mistake."""
    given, mistakes = split_arguments(arguments, SETTINGS)
    values, more = read_values({"per_node": _NO, **given}, SETTINGS)
    missing = [f"{name} is not set; slipway run sets it" for name in _NEEDED if name not in given]
    if mistakes or more or missing:
        raise InvalidSettings([*mistakes, *more, *missing])
    source, requirements = str(values["source"]), values["requirements"]
    return CommandConfig(
        source=source,
        digest=source.removesuffix(".tar.gz")[-64:],
        command=tuple(json.loads(str(values["command"]))),
        is_per_node=values["per_node"] == _YES,
        requirements=None if requirements is None else str(requirements),
    )


def refuse_ranks(arguments: Sequence[str], _world: int, ranks_per_node: int) -> None:
    """Refuse to start a command once a node and several times a node."""
    if decode_arguments(arguments).is_per_node and ranks_per_node != 1:
        raise Refusal(
            f"the command starts once a node, and {ranks_per_node} processes a node were asked for",
            hint="leave out --processes-per-node, or --per-node",
        )


# A user's own command in a user's own folder, as submitters see it. Standard library only.
# `slipway run` writes the settings; there is nothing of the training that Slipway knows.
NAME = "command"
SUMMARY = "Run your own command in your own folder: slipway run"
MODULE = "slipway.containers.recipes.command.train"
ACCELERATORS = ("gaudi", "cuda", "neuron", "cpu")
PARALLELISMS = ("data",)
CODE_SETTINGS = ("source",)
