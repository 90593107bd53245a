"""Parse environment variables; an error names the variable, its text and what is allowed."""

from __future__ import annotations

import re
from collections.abc import Mapping

from slipway.containers.runtime.errors import Refusal

Environment = Mapping[str, str]

LARGEST_WORLD = 1_000_000
LARGEST_ATTEMPT = 1_000_000
LARGEST_PORT = 65_535
SHOWN_CHARACTERS = 60

# [0-9] and not \d or str.isdigit: those take the digits of every script, and int() then agrees with them.
_WHOLE = re.compile(r"[0-9]{1,12}", re.ASCII)
_DECIMAL = re.compile(r"[0-9]{1,12}(\.[0-9]{1,20})?", re.ASCII)
_ADDRESS = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._:-]{0,251}[A-Za-z0-9])?|::1", re.ASCII)
_IDENTIFIER = re.compile(r"[!-~]{1,256}", re.ASCII)
_ACCOUNT = re.compile(r"[0-9]{12}", re.ASCII)
_PLACE = re.compile(r"[^\x00-\x1f\x7f]{1,4096}")


class InvalidContract(Refusal):
    """The launcher or the backend said something about this process that cannot be true."""


def whole(environment: Environment, name: str, *, low: int = 0, high: int, default: int | None = None) -> int:
    text = environment.get(name)
    if text is None and default is not None:
        return default
    if text is None or not _WHOLE.fullmatch(text) or not low <= int(text) <= high:
        raise _refused(name, text, f"a whole number from {low} to {high}")
    return int(text)


def seconds(environment: Environment, name: str) -> float | None:
    return _decimal(environment, name, "a number of seconds such as 30 or 0.5")


def dollars(environment: Environment, name: str) -> float | None:
    return _decimal(environment, name, "US dollars such as 86 or 21.5")


def address(environment: Environment, name: str) -> str:
    return _matching(environment, name, _ADDRESS, "a host name or an IP address")


def identifier(environment: Environment, name: str) -> str:
    return _matching(environment, name, _IDENTIFIER, "1 to 256 printable ASCII characters without spaces")


def location(environment: Environment, name: str) -> str | None:
    """Return a path or a URL, or None if the variable is not set."""
    if not environment.get(name):
        return None
    return _matching(environment, name, _PLACE, "a path or URL without control characters")


def account(environment: Environment, name: str) -> str | None:
    """Return an AWS account, or None if the variable is not set."""
    return _matching(environment, name, _ACCOUNT, "12 digits") if environment.get(name) else None


def shown(text: str | None) -> str:
    """Quote a value for a message, shortened and escaped: hostile ones can be long, or move the cursor."""
    if text is None:
        return "missing"
    cut = text if len(text) <= SHOWN_CHARACTERS else text[:SHOWN_CHARACTERS] + "…"
    return f"{cut!a}"


def _decimal(environment: Environment, name: str, wanted: str) -> float | None:
    text = environment.get(name)
    if text is None:
        return None
    if not _DECIMAL.fullmatch(text):
        raise _refused(name, text, wanted)
    return float(text)


def _matching(environment: Environment, name: str, pattern: re.Pattern[str], wanted: str) -> str:
    text = environment.get(name)
    if text is None or not pattern.fullmatch(text):
        raise _refused(name, text, wanted)
    return text


def _refused(name: str, text: str | None, wanted: str) -> InvalidContract:
    return InvalidContract(f"{name} is {shown(text)}, and must be {wanted}")
