"""A reader of any bytes soon returns a value, or says in one of our errors what is wrong."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import suppress
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.any_input import requests
from tests.any_input.readers import CONFIG, OURS, READERS, Reader, js

# Any bytes, and valid files with something nasty in place of a piece or of a value of JSON.
# Pieces that readers may fail on: NaN or huge numbers, nesting, half characters, other kinds of values.
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


MOST_SECONDS = 1.0  # of a processor
MOST_BYTES = 200 << 20
STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


@pytest.mark.parametrize("name", READERS)
def test_a_valid_file_is_read(name: str) -> None:
    for content in READERS[name].valid:
        READERS[name].read(content)


@pytest.mark.parametrize("name", READERS)
def test_broken_files_give_a_value_or_an_error_of_ours(name: str) -> None:
    hold(READERS[name], examples=12)


@pytest.mark.long
@pytest.mark.parametrize("name", READERS)
def test_many_broken_files_give_a_value_or_an_error_of_ours(name: str) -> None:
    hold(READERS[name], examples=1500)


def hold(reader: Reader, examples: int) -> None:
    @settings(max_examples=examples, database=None)
    @given(broken(reader.valid))
    def each(content: bytes) -> None:
        read(reader, content)

    CLEAR.write_text("5", encoding="ascii")  # count the peak of memory from here
    before = peak()
    each()
    assert peak() - before < MOST_BYTES


def read(reader: Reader, content: bytes) -> None:
    """Read, and let every error through that is not ours."""
    begun = time.process_time()
    with suppress(*OURS, *reader.also):
        reader.read(content)
    assert time.process_time() - begun < MOST_SECONDS


def peak() -> int:
    (line,) = (line for line in STATUS.read_text(encoding="ascii").splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) << 10


NESTED = b"[" * 20_000
HEADER, PRESIGNED, OLD = (each.encode() for each in (requests.HEADER, requests.PRESIGNED, requests.OLD))
LONG = b"9" * 5000
# Inputs that once ended a reader with an error of Python: BI-449 and BI-452.
ONCE: tuple[tuple[str, bytes], ...] = (
    ("ami record", LONG),
    ("ami record", NESTED),
    ("archive of code", b""),
    ("bpe vocabulary", b'{"model": {"type": "BPE", "vocab": {}}, "added_tokens": [{}]}'),
    ("bpe vocabulary", b'{"model": {"type": "BPE", "vocab": {}}, "added_tokens": [[]]}'),
    ("calibration", b"na\rme,instance\n"),
    ("calibration", b"a" * 140_000),
    ("cloudformation, json", b'{"Transform": -1, "Resources": {"A": {"Type": "AWS::S3::Bucket"}}}'),
    (
        "cloudformation, json",
        b'{"Resources": {"A": {"Type": "AWS::X::Y", "Properties": {"T": {"Fn::GetAtt": ["A", 1, 2]}}}}}',
    ),
    ("cloudformation, json", b'{"a": ' + LONG + b"}"),
    ("docker manifest", b"not JSON"),
    ("docker manifest", b'{"manifests": [0]}'),
    ("docker manifest", b'{"manifests": -1}'),
    ("log", 40 * (b"step=1 loss=2.5 " + LONG + b"\n")),
    ("model's config, estimated", LONG),
    ("model's config, estimated", js({**CONFIG, "vocab_size": 10**300, "num_hidden_layers": 10**30})),
    ("mpi answer", NESTED),
    ("mpi facts", NESTED),
    ("node.json, mpi", NESTED),
    ("node.json, slurm", NESTED),
    ("policy", b'{"Statement": "x"}'),
    ("policy", b'{"Statement": [{"Effect": "Allow", "Condition": {"StringEquals": "x"}}]}'),
    ("request, json", NESTED),
    ("request, json", b'{"Name": ' + LONG + b"}"),
    ("request, rest-json", b'{"nodeOverrides": {"numNodes": ' + LONG + b"}}"),
    ("sacct", b'{"jobs": [{"comment": "slipway:a", "time": 1, "state": 2}]}'),
    ("sacct", b'{"jobs": [{"comment": "slipway:a", "time": {"submission": NaN, "start": 1e999}}]}'),
    ("sagemaker's settings", NESTED),
    ("slurm's answer", b'{"left_out": "x"}'),
    ("slurm's answer", NESTED),
    ("signature, date", b"Thu, 26 Nov 2026 00:00:00 " + LONG),
    ("signature, header", HEADER.replace(b"%s", LONG)),
    ("signature, query", OLD.replace(b"Expires=1", b"Expires=" + LONG)),
    ("signature, query", PRESIGNED.replace(b"Expires=60", b"Expires=" + LONG)),
    ("signature, query", PRESIGNED.replace(b"20261126T", b"9999-12-31T")),
    ("squeue", b'{"jobs": [{"comment": "slipway:a", "job_state": " "}]}'),
    ("squeue", NESTED),
    ("squeue's time left", "²".encode()),
    ("target", LONG),
    ("target", NESTED),
    ("task", b"{}"),
    ("yaml", NESTED),
    ("yard's record", NESTED),
)  # fmt: skip


@pytest.mark.parametrize(("name", "content"), ONCE, ids=[f"{name}-{at}" for at, (name, _) in enumerate(ONCE)])
def test_what_once_broke_a_reader_does_not(name: str, content: bytes) -> None:
    read(READERS[name], content)
