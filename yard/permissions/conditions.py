"""Evaluates the conditions of policy statements. To add an operator: a line of _OPERATORS.

Source: IAM user guide, "Condition operators" and "Multivalued context keys".
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache

# Patterns in policies: `*` and `?`, and variables such as ${aws:PrincipalTag/team}.
# Source: IAM user guide, "Policy variables" and "Resource". A variable's value is text, never a pattern.
Keys = Mapping[str, tuple[str, ...]]  # condition keys in lower case, each with its values

_ARN_PARTS = 6
_VARIABLE = re.compile(
    r"\$\{(?P<literal>[*?$])\}|\$\{\s*(?P<key>[^,}\s]+)\s*(?:,\s*'(?P<default>[^']*)'\s*)?\}"
)
_ANY = {"*": ".*", "?": "."}


def is_like(pattern: str, text: str, keys: Keys | None = None) -> bool:
    """Compare text with a pattern; without keys, `${` is plain text, as in policies of version 2008-10-17."""
    compiled = _plain(pattern) if keys is None or "${" not in pattern else _with_variables(pattern, keys)
    return compiled is not None and compiled.fullmatch(text) is not None


def is_arn_like(pattern: str, arn: str, keys: Keys | None = None) -> bool:
    """Compare part by part: `*` does not match a colon, except in the last part."""
    # Colons in variables such as ${aws:username} do not separate parts.
    hidden = _VARIABLE.sub(lambda variable: variable[0].replace(":", "\0"), pattern)
    wanted = [part.replace("\0", ":") for part in hidden.split(":", _ARN_PARTS - 1)]
    found = arn.split(":", _ARN_PARTS - 1)
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


# Operator -> key -> values, as in a policy.
Conditions = Mapping[str, Mapping[str, Sequence[str]]]

_FOR_ALL, _FOR_ANY, _IF_EXISTS = "forallvalues:", "foranyvalue:", "ifexists"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Operator:
    test: Callable[[str, str, Keys | None], bool]  # takes the policy's value, the request's, and variables
    is_negated: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stated:
    """An operator as a policy writes it, such as ForAllValues:StringLikeIfExists."""

    operator: str
    set_word: str
    if_exists: bool


def hold(conditions: Conditions, keys: Keys, *, variables: bool = True) -> bool:
    """Return True if every key of every operator holds for this request."""
    return all(
        _holds(_stated(operator), keys.get(key.lower(), ()), values, keys if variables else None)
        for operator, wanted in conditions.items()
        for key, values in wanted.items()
    )


def check(conditions: Conditions) -> None:
    """Raise ValueError for an operator that IAM does not know."""
    for operator in conditions:
        if _stated(operator).operator not in {*_OPERATORS, "null"}:
            raise ValueError(f"'{operator}' is no condition operator; the IAM user guide lists them")


def _stated(operator: str) -> _Stated:
    word = operator.lower()
    set_word = next((prefix for prefix in (_FOR_ALL, _FOR_ANY) if word.startswith(prefix)), "")
    word = word.removeprefix(set_word)
    return _Stated(
        operator=word.removesuffix(_IF_EXISTS), set_word=set_word, if_exists=word.endswith(_IF_EXISTS)
    )


def _holds(stated: _Stated, found: Sequence[str], wanted: Sequence[str], variables: Keys | None) -> bool:
    if stated.operator == "null":
        return any((value.lower() == "true") == (not found) for value in wanted)
    operator = _OPERATORS[stated.operator]
    if not found:
        if stated.set_word:
            return stated.set_word == _FOR_ALL or stated.if_exists
        return stated.if_exists or operator.is_negated
    matched = [any(operator.test(want, value, variables) for want in wanted) for value in found]
    if operator.is_negated:
        matched = [not one for one in matched]
        return any(matched) if stated.set_word == _FOR_ANY else all(matched)
    return all(matched) if stated.set_word == _FOR_ALL else any(matched)


def _equals(want: str, found: str, variables: Keys | None) -> bool:
    return substituted(want, variables) == found


def _equals_in_any_case(want: str, found: str, variables: Keys | None) -> bool:
    text = substituted(want, variables)
    return text is not None and text.casefold() == found.casefold()


def _number(compare: Callable[[float, float], bool]) -> Callable[[str, str, Keys | None], bool]:
    return lambda want, found, _variables: _compared(float, compare, found, want)


def _date(compare: Callable[[float, float], bool]) -> Callable[[str, str, Keys | None], bool]:
    return lambda want, found, _variables: _compared(_seconds, compare, found, want)


def _compared(
    read: Callable[[str], float], compare: Callable[[float, float], bool], found: str, want: str
) -> bool:
    """Compare two numbers or dates; a value that is neither matches nothing."""
    try:
        return compare(read(found), read(want))
    except ValueError:
        return False


def _seconds(text: str) -> float:
    """Read a date in ISO 8601 or in seconds since the epoch."""
    try:
        return float(text)
    except ValueError:
        moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _in_network(want: str, found: str, _variables: Keys | None) -> bool:
    try:
        return ipaddress.ip_address(found) in ipaddress.ip_network(want, strict=False)
    except ValueError:
        return False


def _both(name: str, negated: str, test: Callable[[str, str, Keys | None], bool]) -> dict[str, _Operator]:
    return {name: _Operator(test=test), negated: _Operator(test=test, is_negated=True)}


_ORDERS: Mapping[str, Callable[[float, float], bool]] = {
    "lessthan": lambda found, want: found < want,
    "lessthanequals": lambda found, want: found <= want,
    "greaterthan": lambda found, want: found > want,
    "greaterthanequals": lambda found, want: found >= want,
}
_OPERATORS: Mapping[str, _Operator] = {
    **_both("stringequals", "stringnotequals", _equals),
    **_both("stringequalsignorecase", "stringnotequalsignorecase", _equals_in_any_case),
    **_both("stringlike", "stringnotlike", is_like),
    **_both("arnequals", "arnnotequals", is_arn_like),
    **_both("arnlike", "arnnotlike", is_arn_like),
    **_both("ipaddress", "notipaddress", _in_network),
    **_both("numericequals", "numericnotequals", _number(lambda found, want: found == want)),
    **_both("dateequals", "datenotequals", _date(lambda found, want: found == want)),
    **{f"numeric{order}": _Operator(test=_number(compare)) for order, compare in _ORDERS.items()},
    **{f"date{order}": _Operator(test=_date(compare)) for order, compare in _ORDERS.items()},
    "bool": _Operator(test=lambda want, found, _variables: want.lower() == found.lower()),
    "binaryequals": _Operator(test=lambda want, found, _variables: want == found),
}
