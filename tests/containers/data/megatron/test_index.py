"""What is written is Megatron's format byte by byte; files that do not belong together are refused."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from slipway.containers.data.errors import DataError
from slipway.containers.data.megatron.index import TokenIndex, index_path, tokens_path, type_for, write_index
from tests.containers.data.megatron.conftest import WriteTokens
from tests.containers.data.megatron.reference import read_documents

DOCUMENTS = [[5, 6, 7], [50256], [1, 2]]

# By hand from the description of the format in Megatron-LM's indexed_dataset.py: magic, version 1, type 8
# (uint16), 3 sequences, 4 document ends; lengths 3, 1, 2; first bytes 0, 6, 8; documents begin at sequences
# 0, 1, 2, and the last ends before sequence 3.
INDEX = bytes.fromhex(
    "4d4d494449445800 00 0100000000000000 08 0300000000000000 0400000000000000"
    "03000000 01000000 02000000"
    "0000000000000000 0600000000000000 0800000000000000"
    "0000000000000000 0100000000000000 0200000000000000 0300000000000000"
)
TOKENS = bytes.fromhex("0500 0600 0700 50c4 0100 0200")


def test_the_bytes_are_those_that_the_format_describes(write_tokens: WriteTokens) -> None:
    prefix = write_tokens(DOCUMENTS, np.uint16)
    assert index_path(prefix).read_bytes() == INDEX
    assert tokens_path(prefix).read_bytes() == TOKENS


def test_a_vocabulary_above_16_bits_is_written_in_32(write_tokens: WriteTokens) -> None:
    documents = [[70_000, 3], [2**31 - 1]]
    assert read_documents(write_tokens(documents, np.int32)) == documents
    assert type_for(50_257) is np.uint16
    assert type_for(65_499) is np.uint16
    assert type_for(65_500) is np.int32


def test_documents_of_several_sequences_and_of_none_are_read_as_the_reference_reads_them(
    tmp_path: Path,
) -> None:
    prefix = tmp_path / "sentences"
    tokens_path(prefix).write_bytes(struct.pack("<6H", 1, 2, 3, 4, 5, 6))
    index_path(prefix).write_bytes(
        struct.pack("<9sQBQQ", b"MMIDIDX\x00\x00", 1, 8, 3, 5)
        + struct.pack("<3i", 2, 1, 3)
        + struct.pack("<3q", 0, 4, 6)
        + struct.pack("<5q", 0, 0, 2, 3, 3)
    )
    index = TokenIndex.open(prefix)
    begins, lengths = index.stretches(np.arange(index.documents))
    found = [
        index.tokens[begin : begin + length].tolist() for begin, length in zip(begins, lengths, strict=True)
    ]
    assert found == read_documents(prefix) == [[], [1, 2, 3], [4, 5, 6], []]


def _cut(path: Path, to: int) -> None:
    path.write_bytes(path.read_bytes()[:to])


def _patch(path: Path, at: int, data: bytes) -> None:
    path.write_bytes(path.read_bytes()[:at] + data + path.read_bytes()[at + len(data) :])


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda prefix: _cut(tokens_path(prefix), 10), "describes 12 bytes of tokens, but .* has 10"),
        (lambda prefix: _cut(tokens_path(prefix), 11), r"has 11 bytes, but its ids take 2 each"),
        (lambda prefix: tokens_path(prefix).unlink(), "tokens.bin"),
        (lambda prefix: index_path(prefix).unlink(), "tokens.idx"),
        (lambda prefix: _cut(index_path(prefix), 20), "is no index of tokens"),
        (lambda prefix: _cut(index_path(prefix), 60), "has 60 bytes, which does not fit its 3 sequences"),
        (lambda prefix: _patch(index_path(prefix), 0, b"TNTIDX\x00\x00\x00"), "is no index of tokens"),
        (lambda prefix: _patch(index_path(prefix), 9, b"\x02"), "version 2"),
        (lambda prefix: _patch(index_path(prefix), 17, b"\x06"), "ids of type 6"),
        (
            lambda prefix: _patch(index_path(prefix), 18, b"\xff" * 8),
            "does not fit its 18,446,744,073,709,551,615",
        ),
        (lambda prefix: _patch(index_path(prefix), 94, b"\x02"), "its documents end at sequence 2 of 3"),
    ],
)
def test_a_pair_that_does_not_belong_together_is_refused_by_name(
    write_tokens: WriteTokens, damage: Callable[[Path], None], message: str
) -> None:
    prefix = write_tokens(DOCUMENTS, np.uint16)
    damage(prefix)
    with pytest.raises(DataError, match=message):
        TokenIndex.open(prefix)


def test_an_index_of_no_document_is_refused(tmp_path: Path) -> None:
    prefix = tmp_path / "none"
    tokens_path(prefix).write_bytes(b"")
    write_index(index_path(prefix), np.uint16, [])
    with pytest.raises(DataError, match="holds no document"):
        TokenIndex.open(prefix)


def test_other_tokens_have_another_identity(write_tokens: WriteTokens) -> None:
    ours = TokenIndex.open(write_tokens(DOCUMENTS, np.uint16)).identity
    assert TokenIndex.open(write_tokens(DOCUMENTS, np.uint16)).identity == ours
    assert TokenIndex.open(write_tokens(DOCUMENTS, np.int32)).identity != ours
    assert TokenIndex.open(write_tokens([[5, 6], [7, 50256], [1, 2]], np.uint16)).identity != ours
