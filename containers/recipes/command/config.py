"""The settings of a user's own command; all mistakes are reported at once."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Annotated

from slipway.containers.runtime.errors import Refusal
from slipway.containers.training.settings import ValueKind, choice, made, matching, read_settings

_YES, _NO = "yes", "no"
_LONGEST_NAME = 1024


def _json(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _words(text: str) -> tuple[str, ...] | None:
    words = _json(text)
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        return None
    return tuple(words) if words and words[0] and not any("\0" in word for word in words) else None


def _file_of_the_folder(text: str) -> str | None:
    is_inside = not {"", ".", ".."} & set(text.split("/")) and "\0" not in text
    return text if is_inside and len(text) <= _LONGEST_NAME else None


# The prefix of secrets that jobs may read: infra gives their roles only this prefix.
SECRETS_PREFIX = "slipway/jobs/"
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}", re.ASCII)
_SECRET = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*(/[A-Za-z0-9][A-Za-z0-9_.-]*)*", re.ASCII)
_OURS = re.compile(
    r"SLIPWAY_.*|PET_.*|(LOCAL_)?RANK|(LOCAL_)?WORLD_SIZE|MASTER_(ADDR|PORT)|NODE_RANK|NNODES|PATH|PWD"
)


def is_variable(name: str) -> bool:
    """Return True if a user may set it: it is a name, and not one by which a rank learns its place."""
    return _VARIABLE.fullmatch(name) is not None and _OURS.fullmatch(name) is None


def is_secret(name: str) -> bool:
    return len(name) <= _LONGEST_NAME // 4 and _SECRET.fullmatch(name) is not None


def _variables(of: str, fits: Callable[[str], bool]) -> ValueKind:
    """Return the kind of a JSON object of names and texts."""

    def read(text: str) -> dict[str, str] | None:
        found = _json(text)
        if not isinstance(found, dict):
            return None
        are_right = all(
            is_variable(name) and isinstance(each, str) and fits(each) for name, each in found.items()
        )
        return dict(found) if are_right else None

    return ValueKind(f'{of} by variable as a JSON object, such as {{"NAME": "mine"}}', read)


ARCHIVE = matching(
    r"(?:s3://|/)[^\x00-\x1f\x7f]*?([0-9a-f]{64})\.tar\.gz",
    "s3://bucket/… or a full path, which ends in the SHA-256 of the archive and .tar.gz",
)
WORDS = ValueKind('the words of a command as a JSON list, such as ["python", "train.py"]', _words)
FILE_OF_THE_FOLDER = ValueKind("the name of a file in the folder, without '..'", _file_of_the_folder)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandConfig:
    source: Annotated[str, ARCHIVE]  # where the archive of the folder lies
    command: Annotated[tuple[str, ...], WORDS]
    # One process a node, for a command that starts the others itself.
    per_node: Annotated[str, choice((_NO, _YES))] = _NO
    requirements: Annotated[str | None, FILE_OF_THE_FOLDER] = None  # that pip installs first
    environment: Annotated[dict[str, str], _variables("texts", lambda text: "\0" not in text)] = field(
        default_factory=dict
    )
    secrets: Annotated[dict[str, str], _variables("names of secrets", is_secret)] = field(
        default_factory=dict
    )

    @property
    def digest(self) -> str:
        """Return the digest of the archive, unpacked."""
        return self.source.removesuffix(".tar.gz")[-64:]

    @property
    def is_per_node(self) -> bool:
        return self.per_node == _YES


_NEEDED = ("source", "command")


def decode_arguments(arguments: Sequence[str]) -> CommandConfig:
    """Decode `key=value` arguments as `--set` gives them; raise InvalidSettings with every mistake."""
    given, values, mistakes = read_settings(CommandConfig, arguments)
    missing = [f"{name} is not set; slipway run sets it" for name in _NEEDED if name not in given]
    return made(CommandConfig, values, [*mistakes, *missing])


def refuse_ranks(arguments: Sequence[str], _world: int, ranks_per_node: int) -> None:
    """Refuse to start a command once a node and several times a node."""
    if decode_arguments(arguments).is_per_node and ranks_per_node != 1:
        raise Refusal(
            f"the command starts once a node, and {ranks_per_node} processes a node were asked for",
            hint="leave out --processes-per-node, or --per-node",
        )


# A user's own command in a user's own folder, as submitters see it. Standard library only.
# `slipway run` writes the settings; there is nothing of the training that Slipway knows.
CONFIG = CommandConfig
SUMMARY = "Run your own command in your own folder: slipway run"
MODULE = "slipway.containers.recipes.command.train"
ACCELERATORS = ("gaudi", "cuda", "neuron", "neuron2", "cpu")
CODE_SETTINGS = ("source",)
