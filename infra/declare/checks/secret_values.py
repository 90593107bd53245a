"""Values that look like secrets: a declaration is committed and printed, so none may stand in it.

A new kind of secret is one row of PATTERNS.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

# The shapes are published by those who issue them, for scanners.
PATTERNS: Mapping[str, re.Pattern[str]] = {
    "an AWS access key": re.compile(r"\b(AKIA|ASIA)[0-9A-Z]{16}\b"),
    "an AWS secret key": re.compile(r"(?i)aws_?(secret_?access_?key|session_?token)"),
    "a Hugging Face token": re.compile(r"\bhf_[0-9A-Za-z]{20,}"),
    "a GitHub token": re.compile(r"\b(gh[oprsu]_[0-9A-Za-z]{30,}|github_pat_[0-9A-Za-z_]{30,})"),
    "a private key": re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY"),
}

_LONGEST_SHOWN = 80


def secret_kind(text: str) -> str | None:
    return next((kind for kind, pattern in PATTERNS.items() if pattern.search(text)), None)


def shown(value: object) -> str:
    """Return a value as a message prints it."""
    return presentable(repr(str(value)) if isinstance(value, str) else repr(value))


def presentable(text: str) -> str:
    """Return the text without secrets and control characters, cut to a readable length."""
    kind = secret_kind(text)
    if kind:
        return f"(hidden: {kind})"
    text = text if text.isprintable() else ascii(text)[1:-1]
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}… ({len(text)} characters)"
