"""Joins the parts of a corpus to one pair of files, as if one process had written them from first to last."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

import numpy as np

from slipway.containers.data.corpus.claim import MADE
from slipway.containers.data.corpus.part_records import record_path
from slipway.containers.data.errors import DataError
from slipway.containers.data.megatron.index import HEADER, TokenIndex, index_path, tokens_path, type_for
from slipway.containers.data.megatron.work import (
    KEPT,
    TokenRecord,
    TokenWork,
    part_prefix,
    records_of,
)
from slipway.containers.data.megatron.writer import write_index
from slipway.containers.data.text.documents import digest_of, read_json, write_json

TOKENS = "tokens"  # tokens.bin and tokens.idx
MANIFEST = "manifest.json"
COPIED_BYTES = 64 << 20


def merge_tokens(work: TokenWork) -> dict[str, object] | None:
    """Merge all parts and return the manifest; None if some are not made yet.

    Whoever ends last of an array's jobs merges; the parts go when the whole is safe.
    """
    with _lone_merger(work.folder):
        if (merged := merged_tokens(work)) is not None:
            return merged
        records = records_of(work, range(len(work.parts)))
        if len(records) < len(work.parts):
            return None
        manifest = _manifest(work, records)
        if not manifest["documents"]:
            raise DataError("the input holds no documents with a token", hint="look at its files")
        try:
            _join(work, [record for record in records if record.documents])
        except OSError as error:
            raise DataError(f"cannot merge {work.folder}: {error.strerror or error}", hint=KEPT) from error
        write_json(work.folder / MANIFEST, manifest)
        _remove_parts(work)
        return manifest


def merged_tokens(work: TokenWork) -> dict[str, object] | None:
    """Return the manifest of tokens that are whole and of this plan."""
    path, prefix = work.folder / MANIFEST, work.folder / TOKENS
    if not path.exists():
        return None
    manifest = read_json(path)
    sizes = {tokens_path(prefix): manifest.get("bytes"), index_path(prefix): manifest.get("index_bytes")}
    is_whole = all(file.is_file() and file.stat().st_size == size for file, size in sizes.items())
    return manifest if is_whole and manifest.get("plan") == digest_of(work.plan) else None


def _manifest(work: TokenWork, records: Sequence[TokenRecord]) -> dict[str, object]:
    documents, tokens = sum(record.documents for record in records), sum(record.tokens for record in records)
    kind = np.dtype(type_for(work.entries))
    return {
        "plan": digest_of(work.plan),
        "documents": documents,
        "empty_documents": sum(record.empty for record in records),
        "tokens": tokens,
        "characters": sum(record.characters for record in records),
        "type": kind.name,
        "bytes": tokens * kind.itemsize,
        "index_bytes": HEADER.size + 20 * documents + 8,
        "vocabulary_entries": work.entries,
        "vocabulary_sha256": work.vocabulary,
        "end_of_document": work.end_of_document,
        "parts_sha256": [record.sha256 for record in records],
    }


def _join(work: TokenWork, records: Sequence[TokenRecord]) -> None:
    whole = work.folder / TOKENS
    parts = [part_prefix(work, record.number) for record in records]
    fresh = whole.with_name(f".{whole.name}.{os.getpid()}")
    for left_over in work.folder.glob(f".{whole.name}.*"):
        left_over.unlink(missing_ok=True)
    try:
        with fresh.open("wb") as file:
            for part in parts:
                _append(tokens_path(part), file)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(tokens_path(whole))
        write_index(fresh, type_for(work.entries), [TokenIndex.open(part).lengths for part in parts])
        fresh.replace(index_path(whole))
    finally:
        fresh.unlink(missing_ok=True)


def _append(path: Path, target: BinaryIO) -> None:
    """Append a file within the kernel; a file system that can share blocks copies nothing."""
    with path.open("rb") as source:
        target.flush()
        while True:
            try:
                copied = os.copy_file_range(source.fileno(), target.fileno(), COPIED_BYTES)
            except OSError:  # not on this file system, or not between these two
                copied = os.sendfile(target.fileno(), source.fileno(), None, COPIED_BYTES)
            if not copied:
                return


def _remove_parts(work: TokenWork) -> None:
    for number in range(len(work.parts)):
        record_path(work.folder, number).unlink(missing_ok=True)
        for path in (tokens_path, index_path):
            path(part_prefix(work, number)).unlink(missing_ok=True)


@contextmanager
def _lone_merger(folder: Path) -> Iterator[None]:
    with (folder / MADE / "merge.lock").open("w") as file:
        with suppress(OSError):  # a file system without locks: two mergers write the same
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
