"""Loads a user's YAML in bounded memory: a few nested aliases can expand to billions of values.

It also refuses a key that occurs twice in a mapping; PyYAML would silently keep the last.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import yaml

MOST_VALUES = 100_000  # with every alias written out
MOST_CHARACTERS = 4_000_000  # with every alias written out
MOST_DEPTH = 100


class UnfitYaml(yaml.YAMLError):
    """Says why well-formed YAML is not loaded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Size:
    """Counts the content of one node, with its aliases written out."""

    values: int
    characters: int
    height: int


def load(text: str) -> Any:
    """Return the value of one YAML document; raise yaml.YAMLError if it is malformed or too large."""
    try:
        node = yaml.compose(text, Loader=ShallowLoader)
        if node is None:
            return None
        _Measure().of(node, 1)
        return yaml.SafeLoader("").construct_document(node)
    except RecursionError:
        raise _too_deep() from None
    except ValueError as error:  # a date or a number that Python cannot hold
        raise UnfitYaml(f"a value cannot be read: {error}") from None


class ShallowLoader(yaml.SafeLoader):
    """Refuses deeply nested brackets while they are read: PyYAML takes a second for each thousand levels."""

    def fetch_flow_collection_start(self, token: Any) -> None:
        if self.flow_level >= MOST_DEPTH:
            raise _too_deep()
        super().fetch_flow_collection_start(token)


class _Measure:
    """Measures each node once: PyYAML represents an alias by the very node that it names."""

    def __init__(self) -> None:
        self._found: dict[int, _Size] = {}
        self._open: set[int] = set()

    def of(self, node: yaml.Node, depth: int) -> _Size:
        if id(node) in self._open:
            raise UnfitYaml("an alias contains itself")
        if id(node) not in self._found:
            if depth > MOST_DEPTH:
                raise _too_deep()
            self._open.add(id(node))
            below = [self.of(child, depth + 1) for child in _children(node)]
            length = len(node.value) if isinstance(node, yaml.ScalarNode) else 0
            size = _Size(
                values=1 + sum(size.values for size in below),
                characters=length + sum(size.characters for size in below),
                height=1 + max((size.height for size in below), default=0),
            )
            if size.height > MOST_DEPTH:
                raise _too_deep()
            if size.values > MOST_VALUES or size.characters > MOST_CHARACTERS:
                raise UnfitYaml(
                    f"with its aliases written out it holds more than {MOST_VALUES} values or "
                    f"{MOST_CHARACTERS} characters; write fewer aliases"
                )
            self._found[id(node)] = size
            self._open.remove(id(node))
        return self._found[id(node)]


def _children(node: yaml.Node) -> list[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        lines: dict[tuple[str, str], int] = {}
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                continue
            name, line = (key.tag, key.value), key.start_mark.line + 1
            if name in lines:
                raise UnfitYaml(
                    f"the key {key.value[:60]!r} stands twice, in lines {lines[name]} and {line}; keep one"
                )
            lines[name] = line
        return [child for pair in node.value for child in pair]
    return list(node.value) if isinstance(node, yaml.SequenceNode) else []


def _too_deep() -> UnfitYaml:
    return UnfitYaml(f"it is nested deeper than {MOST_DEPTH} levels")
