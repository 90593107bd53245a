"""Make one shard from its pieces of text; keep a shard that is whole and was made from the same text."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from io import BufferedReader
from pathlib import Path

from slipway.containers.data.preparation import Report, read_record, unfinished
from slipway.containers.data.rows.shards import RowPlan, ShardRecord, ShardWriter, record_path, shard_name
from slipway.containers.data.sources.pieces import Piece, units_of
from slipway.containers.data.sources.sources import Source
from slipway.containers.data.text.documents import write_json
from slipway.containers.data.tokens.engine import SENTENCE_PER_LINE, Counts, TokenSettings, check_text_fits
from slipway.containers.data.tokens.engine_native import NativeEngine
from slipway.containers.data.tokens.rng import OF_UNIT, Stream
from slipway.containers.runtime.disk import Digest
from slipway.containers.runtime.named_files import open_regular

READ_BYTES = 8 << 20


@dataclass(frozen=True, kw_only=True)
class ShardWork:
    """Hold what every worker needs to make any shard."""

    source: Source
    settings: TokenSettings
    folder: Path
    plan: RowPlan
    shards: tuple[tuple[Piece, ...], ...]
    input_version: str

    @cached_property
    def engine(self) -> NativeEngine:
        """Open the compiled core, once in each process."""
        return NativeEngine(self.settings)

    def bytes_of(self, number: int) -> int:
        return sum(piece.stop - piece.start for piece in self.shards[number])

    def is_made(self, number: int) -> bool:
        return finished_record(self, number) is not None

    def make(self, number: int, report: Report) -> None:
        make_shard(self, number, report)


def finished_record(work: ShardWork, number: int) -> ShardRecord | None:
    """Return the record of a finished shard; None if it is missing, damaged or made from other text."""
    path = record_path(work.folder, number)
    record = read_record(ShardRecord, path, number, work.plan.digest)
    if record is None or not is_whole(work.folder, record):
        return None
    # It was made from this text if the ETags are equal, or else the digest of the text when read.
    if work.input_version and record.input_version == work.input_version:
        return record
    if text_digest(work, number) != record.text_sha256:
        return None
    if record.input_version != work.input_version:
        record = replace(record, input_version=work.input_version)
        write_json(path, asdict(record))
    return record


def is_whole(folder: Path, record: ShardRecord, with_digest: bool = True) -> bool:
    path = folder / record.name
    if not record.rows:
        return True  # text without a pair of sentences gives no rows, and so no file
    if not path.is_file() or path.stat().st_size != record.bytes:
        return False
    return not with_digest or file_digest(path) == record.sha256


def make_shard(work: ShardWork, number: int, report: Report) -> ShardRecord:
    path = work.folder / shard_name(number)
    with unfinished(path, "finished shards are kept") as temporary:
        counts, rows, text = write_rows(work, number, temporary, report)
        record = ShardRecord(
            plan=work.plan.digest,
            number=number,
            name=shard_name(number),
            rows=rows,
            bytes=temporary.stat().st_size if rows else 0,
            sha256=file_digest(temporary),
            text_bytes=text.bytes,
            text_sha256=text.sha256,
            input_version=work.input_version,
            **asdict(counts),
        )
        if rows:
            temporary.replace(path)
        else:
            path.unlink(missing_ok=True)
    write_json(record_path(work.folder, number), asdict(record))
    return record


def write_rows(work: ShardWork, number: int, path: Path, report: Report) -> tuple[Counts, int, Digest]:
    engine, settings, digest, counts, size = work.engine, work.settings, hashlib.sha256(), Counts(), 0
    own_style = SENTENCE_PER_LINE if settings.has_sentence_per_line else 0
    with ShardWriter(path, settings.row_tokens, settings.predictions) as writer:
        for unit_number, unit in enumerate(units_of(work.source, list(work.shards[number]))):
            engine.clear()
            for text in unit:
                engine.add(text.data, text.style | own_style)
                digest.update(text.data)
            counts += engine.counts()
            check_text_fits(counts, settings.vocabulary.name)
            stream = Stream(settings.seed, OF_UNIT, number, unit_number).draw()
            writer.add(engine.pair(stream), engine.fill)
            unit_bytes = sum(len(text.data) for text in unit)
            size += unit_bytes
            report(unit_bytes)
        writer.finish()
        return counts, writer.rows, Digest(bytes=size, sha256=digest.hexdigest())


def text_digest(work: ShardWork, number: int) -> str:
    digest = hashlib.sha256()
    for piece in work.shards[number]:
        for at in range(piece.start, piece.stop, READ_BYTES):
            digest.update(work.source.read(piece.name, at, min(READ_BYTES, piece.stop - at)))
    return digest.hexdigest()


def file_digest(path: Path) -> str:
    """Return a file's SHA-256."""
    # hashlib.file_digest needs Python 3.11, and Gaudi's container image has 3.10.
    digest = hashlib.sha256()
    with BufferedReader(open_regular(path)) as file:
        while block := file.read(READ_BYTES):
            digest.update(block)
    return digest.hexdigest()
