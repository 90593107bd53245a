"""The constraints of botocore's models: required, enum, pattern, length and range.

To check another type of shape: one function and its line in _CHECKS.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

SHOWN_CHARACTERS = 200


def problems(shape: Any, value: Any, path: str = "") -> Iterator[str]:
    """Everything that is wrong with a value, in AWS's own words."""
    if value is None or getattr(shape, "is_document_type", False):
        return
    yield from _CHECKS.get(shape.type_name, _nothing_wrong)(shape, value, path)


def _nothing_wrong(_shape: Any, _value: Any, _path: str) -> Iterator[str]:
    yield from ()


def _structure(shape: Any, value: Mapping[str, Any], path: str) -> Iterator[str]:
    for name in shape.required_members:
        if value.get(name) is None:
            yield _refused(None, join(path, name), "Member must not be null")
    for name, item in value.items():
        if name in shape.members:
            yield from problems(shape.members[name], item, join(path, name))


def _list(shape: Any, value: Sequence[Any], path: str) -> Iterator[str]:
    yield from _bounds(shape, len(value), value, path, "have length")
    for number, item in enumerate(value, 1):
        yield from problems(shape.member, item, f"{path}.{number}.member")


def _map(shape: Any, value: Mapping[str, Any], path: str) -> Iterator[str]:
    yield from _bounds(shape, len(value), value, path, "have length")
    for name, item in value.items():
        yield from problems(shape.key, name, f"{path}.key")
        yield from problems(shape.value, item, join(path, name))


def _string(shape: Any, value: Any, path: str) -> Iterator[str]:
    if not isinstance(value, str):
        return
    if shape.enum and value not in shape.enum:
        yield _refused(value, path, f"Member must satisfy enum value set: [{', '.join(shape.enum)}]")
    yield from _bounds(shape, len(value), value, path, "have length")
    pattern = shape.metadata.get("pattern")
    if pattern and not matches(pattern, value):
        yield _refused(value, path, f"Member must satisfy regular expression pattern: {pattern}")


def _number(shape: Any, value: Any, path: str) -> Iterator[str]:
    if isinstance(value, int | float) and not isinstance(value, bool):
        yield from _bounds(shape, value, value, path, "have value")


def _blob(shape: Any, value: Any, path: str) -> Iterator[str]:
    if isinstance(value, bytes | str):
        yield from _bounds(shape, len(value), "(bytes)", path, "have length")


def _bounds(shape: Any, measure: float, value: Any, path: str, what: str) -> Iterator[str]:
    low, high = shape.metadata.get("min"), shape.metadata.get("max")
    if low is not None and measure < low:
        yield _refused(value, path, f"Member must {what} greater than or equal to {low}")
    if high is not None and measure > high:
        yield _refused(value, path, f"Member must {what} less than or equal to {high}")


_CHECKS: Mapping[str, Callable[[Any, Any, str], Iterator[str]]] = {
    "structure": _structure,
    "list": _list,
    "map": _map,
    "string": _string,
    "character": _string,
    "integer": _number,
    "long": _number,
    "float": _number,
    "double": _number,
    "blob": _blob,
}


def _refused(value: Any, path: str, constraint: str) -> str:
    """Say in AWS's own words why the value is refused."""
    return f"{at(value, path)} failed to satisfy constraint: {constraint}"


def at(value: Any, path: str) -> str:
    shown = "null" if value is None else f"'{str(value)[:SHOWN_CHARACTERS]}'"
    return f"Value {shown} at '{path}'"


def join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def matches(pattern: str, value: str) -> bool:
    """Match as AWS does: the whole value, unless the pattern has anchors of its own."""
    compiled = _compiled(pattern)
    if compiled is None:
        return True
    is_anchored = pattern.startswith("^") or pattern.endswith("$")
    return (compiled.search if is_anchored else compiled.fullmatch)(value) is not None


@lru_cache(maxsize=4096)
def _compiled(pattern: str) -> Any:
    """Java's regular expressions, as near as the regex module has them; None for one that it cannot read."""
    import regex

    # Java writes a character beyond 16 bits as two escapes; to Python they are two that never occur.
    one_escape = regex.sub(
        r"\\u(D[89AB][0-9A-F]{2})\\u(D[C-F][0-9A-F]{2})",
        lambda pair: f"\\U{_code_point(pair[1], pair[2]):08x}",
        pattern,
        flags=regex.IGNORECASE,
    )
    try:
        return regex.compile(one_escape)
    except regex.error:
        return None


def _code_point(high: str, low: str) -> int:
    return 0x10000 + ((int(high, 16) - 0xD800) << 10) + (int(low, 16) - 0xDC00)
