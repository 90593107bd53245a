"""Any bytes, and valid files with something nasty in place of a piece or of a value of JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

from hypothesis import strategies as st

# What readers stumble over: numbers that are none or too large, nesting, half characters, other kinds.
NASTY: tuple[bytes, ...] = (
    *(b"", b"\0", b"\xff", b"\xc3", b"\n", b"\r", b"\t", b"\xef\xbb\xbf", b"\xe2\x80\xa8"),
    *(b"-", b"-1", b"0", b"1.5", b"1e999", b"NaN", b"-Infinity", b"9" * 30, b"9" * 5000, "²".encode()),
    *(b"null", b"true", b"{}", b"[]", b'""', b"[[[[", b"}" * 9, b"[" * 20_000, b'{"a":' * 9000, b'"\\ud800"'),
    *(b",", b":", b"=", b'"', b"'", b"\\", b"%", b"/", b"..", b"*", b"<", b"&", b"!", b"#"),
)
VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1.5, 10**30, 1e308, float("nan"), float("inf"), "", " ", "x", "²", "\ud800"),
    *(
        "9" * 5000,
        "\0",
        "\n",
        "../../x",
        [],
        {},
        [[]],
        [None],
        [{}],
        {"": None},
        {"a": []},
        ["x"],
        [[1, 2], 3],
    ),
)


def broken(seeds: tuple[bytes, ...]) -> st.SearchStrategy[bytes]:
    """Return any bytes, and these files with one to three mistakes in them."""
    kinds = [st.binary(max_size=200)]
    if seeds:
        kinds.append(st.builds(_cut, st.sampled_from(seeds), st.lists(_EDIT, min_size=1, max_size=3)))
    if objects := tuple(seed for seed in seeds if _is_json(seed)):
        kinds += 2 * [
            st.builds(_replace, st.sampled_from(objects), st.lists(_CHANGE, min_size=1, max_size=2))
        ]
    return st.one_of(kinds)


_SHARE = st.floats(0, 1, exclude_max=True)
_EDIT = st.tuples(_SHARE, st.integers(0, 12), st.integers(0, len(NASTY) - 1))
_CHANGE = st.tuples(_SHARE, st.integers(0, len(VALUES) - 1))


def _cut(seed: bytes, edits: list[tuple[float, int, int]]) -> bytes:
    for share, length, number in edits:
        begin = int(share * (len(seed) + 1))
        seed = seed[:begin] + NASTY[number] + seed[begin + length :]
    return seed


def _replace(seed: bytes, changes: list[tuple[float, int]]) -> bytes:
    root = [json.loads(seed)]
    for share, value in changes:
        places = list(_places(root))
        holder, key = places[int(share * len(places))]
        holder[key] = deepcopy(VALUES[value])
    return json.dumps(root[0]).encode()


def _places(holder: Any) -> Iterator[tuple[Any, Any]]:
    for key, value in list(holder.items() if isinstance(holder, dict) else enumerate(holder)):
        yield holder, key
        if isinstance(value, dict | list):
            yield from _places(value)


def _is_json(seed: bytes) -> bool:
    try:
        json.loads(seed)
    except ValueError:
        return False
    return True
