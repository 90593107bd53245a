"""Every text in a request, however deep: what is looked for by name or by form in any call."""

from __future__ import annotations

from collections.abc import Iterator, Mapping


def texts(value: object, name: str = "") -> Iterator[tuple[str, str]]:
    """Yield every text below a value with the name of its parameter."""
    if isinstance(value, str):
        yield name, value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from texts(item, str(key))
    elif isinstance(value, list | tuple):
        for item in value:
            yield from texts(item, name)
