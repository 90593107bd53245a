"""The text of a document that is a line of JSON."""

from __future__ import annotations

import json

from slipway.containers.data.errors import DataError
from slipway.containers.runtime.values import shown


def text_of(where: str, line: bytes, field: str) -> str:
    """Return what `field` holds; `where` is where the line stands, for messages."""
    try:
        found = json.loads(decoded_line(where, line))
    except (ValueError, RecursionError):
        raise DataError(
            f"{where} holds a line that is not JSON: {shown(line[:80].decode('utf-8', 'replace'))}",
            hint="each line is one object",
        ) from None
    text = found.get(field) if isinstance(found, dict) else None
    if not isinstance(text, str):
        known = ", ".join(sorted(found)[:12]) if isinstance(found, dict) else type(found).__name__
        raise DataError(
            f"{where} holds a line without text in {field!r}; it has {shown(known)}",
            hint="set field to the one that holds the text",
        )
    return text


def decoded_line(where: str, line: bytes) -> str:
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(
            f"{where} holds a line that is not UTF-8: byte {error.start} (0x{line[error.start]:02x}) of it",
            hint="convert the file, for example: iconv -f LATIN1 -t UTF-8",
        ) from None
