"""Patterns of policies: `*` and `?`, and variables such as ${aws:PrincipalTag/team}.

Source: IAM user guide, "Policy variables" and "Resource". A variable's value is text, never a pattern.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

Keys = Mapping[str, tuple[str, ...]]  # condition keys in lower case, each with its values

_ARN_PARTS = 6
_VARIABLE = re.compile(
    r"\$\{(?P<literal>[*?$])\}|\$\{\s*(?P<key>[^,}\s]+)\s*(?:,\s*'(?P<default>[^']*)'\s*)?\}"
)
_ANY = {"*": ".*", "?": "."}


def is_like(pattern: str, text: str, keys: Keys | None = None) -> bool:
    """Compare text with a pattern; without keys, `${` is text, as in policies of 2008."""
    compiled = _plain(pattern) if keys is None or "${" not in pattern else _with_variables(pattern, keys)
    return compiled is not None and compiled.fullmatch(text) is not None


def is_arn_like(pattern: str, arn: str, keys: Keys | None = None) -> bool:
    """Compare part by part: `*` does not reach over a colon, except in the last part."""
    wanted, found = _arn_parts(pattern), arn.split(":", _ARN_PARTS - 1)
    return len(wanted) == len(found) and all(
        is_like(want, part, keys) for want, part in zip(wanted, found, strict=True)
    )


def substituted(text: str, keys: Keys | None) -> str | None:
    """Return the text with its variables replaced; None if the request lacks one of them."""
    if keys is None or "${" not in text:
        return text
    values = [_value(found, keys) for found in _VARIABLE.finditer(text)]
    if None in values:
        return None
    given = iter(values)
    return _VARIABLE.sub(lambda _: str(next(given)), text)


def _value(found: re.Match[str], keys: Keys) -> str | None:
    if found["literal"]:
        return found["literal"]
    values = keys.get(found["key"].lower(), ())
    return values[0] if len(values) == 1 else found["default"]


@lru_cache(maxsize=4096)
def _plain(pattern: str) -> re.Pattern[str]:
    return re.compile(
        "".join(_ANY.get(character) or re.escape(character) for character in pattern), re.DOTALL
    )


def _with_variables(pattern: str, keys: Keys) -> re.Pattern[str] | None:
    pieces, end = [], 0
    for found in _VARIABLE.finditer(pattern):
        value = _value(found, keys)
        if value is None:
            return None
        pieces += [_plain(pattern[end : found.start()]).pattern, re.escape(value)]
        end = found.end()
    return re.compile("".join([*pieces, _plain(pattern[end:]).pattern]), re.DOTALL)


def _arn_parts(pattern: str) -> list[str]:
    """A variable may hold colons of its own: ${aws:username}."""
    hidden = _VARIABLE.sub(lambda found: found[0].replace(":", "\0"), pattern)
    return [part.replace("\0", ":") for part in hidden.split(":", _ARN_PARTS - 1)]
