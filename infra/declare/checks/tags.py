"""Tags that every service takes: what Batch or SageMaker refuses is refused before anything is created."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterator

from slipway.infra.declare.checks.secret_values import secret_kind, shown
from slipway.infra.declare.types import Cluster
from slipway.jobs.words.errors import Problem

# https://docs.aws.amazon.com/tag-editor/latest/userguide/best-practices-and-strats.html: 50 tags a resource.
_MOST = 50
RESERVED_FOR_SLIPWAY = 5
_LONGEST_KEY = 128
_LONGEST_VALUE = 256
_PUNCTUATION = frozenset("_.:/=+-@")


def tags(cluster: Cluster) -> Iterator[Problem]:
    allowed = _MOST - RESERVED_FOR_SLIPWAY
    if len(cluster.tags) > allowed:
        yield Problem(
            where="tags",
            message=f"has {len(cluster.tags)} tags; allowed are {allowed}",
            hint=f"AWS takes {_MOST}, and Slipway sets up to {RESERVED_FOR_SLIPWAY} of its own",
        )
    yield from _keys_that_differ_in_case(cluster)
    for key, value in cluster.tags.items():
        for message in _objections(key, value):
            yield Problem(where="tags", message=message)


def _keys_that_differ_in_case(cluster: Cluster) -> Iterator[Problem]:
    folded = Counter(key.casefold() for key in cluster.tags)
    for key in (key for key, count in folded.items() if count > 1):
        same = [shown(tag) for tag in cluster.tags if tag.casefold() == key]
        yield Problem(
            where="tags",
            message=f"has {' and '.join(same)}, which IAM treats as one key",
            hint="keep one of them",
        )


def _objections(key: str, value: str) -> Iterator[str]:
    for sort, text in (("key", key), ("value", value)):
        if kind := secret_kind(text):
            yield f"holds {kind} in a {sort} (hidden): revoke it, and keep secrets in Secrets Manager"
        elif strange := [letter for letter in text if not _is_allowed(letter)]:
            yield (
                f"has the {sort} {shown(text)} with {strange[0]!a}; "
                "allowed are letters of any language, numbers, spaces and _.:/=+-@"
            )
    if key.lower().startswith(("aws:", "slipway:")):
        yield f"has the key {shown(key)}; keys that begin with aws: or slipway: are reserved"
    if not 1 <= len(key) <= _LONGEST_KEY:
        yield f"has a key of {len(key)} characters, {shown(key)}; allowed are 1 to {_LONGEST_KEY}"
    if len(value) > _LONGEST_VALUE:
        yield f"has a value of {len(value)} characters under {shown(key)}; allowed are {_LONGEST_VALUE}"


def _is_allowed(letter: str) -> bool:
    """Match the pattern that Batch and SageMaker share: Unicode letters, numbers and spaces."""
    return (
        letter in _PUNCTUATION
        or unicodedata.category(letter)[0] in "LN"
        or unicodedata.category(letter) == "Zs"
    )
