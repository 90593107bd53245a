"""Reads one setting of an estimate; each mistake names the setting, its value and what is allowed."""

from __future__ import annotations

from slipway.jobs.estimate.errors import CannotEstimate


def whole(name: str, text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        raise CannotEstimate(f"{name} is {text!r}; it must be a whole number", hint="such as 16") from None
    if value < 1:
        raise CannotEstimate(f"{name} is {value}; it must be 1 or more", hint="such as 16")
    return value


def number(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise CannotEstimate(f"{name} is {text!r}; it must be a number", hint="such as 2") from None


def truth(name: str, text: str) -> bool:
    if text not in ("true", "false"):
        raise CannotEstimate(f"{name} is {text!r}; allowed are true, false", hint=f"write {name}=true")
    return text == "true"
