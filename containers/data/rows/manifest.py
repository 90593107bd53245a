"""What was prepared, and from what: plan.json first, a record for each finished shard, manifest.json last.

The folder of a dataset:  plan.json  input.json  records/00003.json  shard-00003.hdf5  manifest.json
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from slipway.containers.data.errors import DataError
from slipway.containers.data.rows.shards import chunk_rows
from slipway.containers.data.sources.origin import InputOrigin
from slipway.containers.data.sources.sources import Source, check_name
from slipway.containers.data.text.documents import decoded, digest_of, read_json
from slipway.containers.data.tokens.engine import Counts
from slipway.containers.data.tokens.settings import TokenSettings

# Raise it when the same input and settings make other rows: old shards are then refused, not mixed in.
FORMAT = 1
PLAN = "plan.json"
DIGEST = re.compile(r"[0-9a-f]{64}")


class NewerDataset(DataError):
    """A newer Slipway prepared this dataset: it is sound, but must not be read, mended or overwritten
    here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowPlan:
    """Hold everything that decides what the rows are. Two runs into one folder must agree on it."""

    format: int
    phase: int
    row_tokens: int
    predictions: int
    seed: int
    duplicates: int
    shards: int
    has_sentence_per_line: bool
    cased: bool
    vocabulary_sha256: str
    vocabulary_entries: int
    mask_token: int
    input_sha256: str
    """Of the names and sizes of the input's files."""

    @property
    def digest(self) -> str:
        return digest_of(asdict(self))


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardRecord:
    plan: str
    number: int
    name: str
    rows: int
    bytes: int
    sha256: str
    text_bytes: int
    text_sha256: str
    input_version: str
    """Of the objects that the text was read from; empty for local files, which have none."""
    documents: int
    sentences: int
    tokens: int
    unknown: int

    def __post_init__(self) -> None:
        check_name(self.name)
        if self.rows < 0 or self.bytes < 0 or not DIGEST.fullmatch(self.sha256):
            raise DataError(f"the record of {self.name} is damaged", hint="prepare the dataset again")

    @property
    def counts(self) -> Counts:
        return Counts(**{field.name: getattr(self, field.name) for field in fields(Counts)})


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetManifest:
    """Describe a finished dataset: its plan, its input and its shards."""

    plan: RowPlan
    origin: InputOrigin
    chunk_rows: int
    shards: tuple[ShardRecord, ...]

    @property
    def rows(self) -> int:
        return sum(shard.rows for shard in self.shards)

    @property
    def digest(self) -> str:
        """Return what identifies the dataset: a resumed run refuses another.

        The rows are a function of plan and text alone. The shards' own digests stay out of it: another
        release of HDF5 or ISA-L writes the same rows in other bytes.
        """
        texts = [(shard.number, shard.rows, shard.text_sha256) for shard in self.shards]
        return digest_of([self.plan.digest, texts])


def plan_of(settings: TokenSettings, source: Source, shards: int) -> RowPlan:
    from slipway.containers.data.tokens.vocabulary import MASK

    vocabulary = settings.vocabulary
    files = [[file.name, file.size_bytes] for file in source.files]
    return RowPlan(
        format=FORMAT,
        phase=settings.phase,
        row_tokens=settings.row_tokens,
        predictions=settings.predictions,
        seed=settings.seed,
        duplicates=settings.duplicates,
        shards=shards,
        has_sentence_per_line=settings.has_sentence_per_line,
        cased=settings.cased,
        vocabulary_sha256=vocabulary.digest,
        vocabulary_entries=len(vocabulary.entries),
        mask_token=vocabulary.numbers[MASK],
        input_sha256=digest_of(files),
    )


def shard_name(number: int) -> str:
    return f"shard-{number:05}.hdf5"


def record_path(folder: Path, number: int) -> Path:
    return folder / "records" / f"{number:05}.json"


def as_json(manifest: DatasetManifest) -> dict[str, object]:
    content = {
        "plan": asdict(manifest.plan),
        "input": asdict(manifest.origin),
        "chunk_rows": manifest.chunk_rows,
        "rows": manifest.rows,
        "dataset": manifest.digest,
        "shards": [asdict(shard) for shard in manifest.shards],
    }
    return {**content, "sha256": digest_of(content)}


def read_plan(folder: Path) -> RowPlan:
    path = folder / PLAN
    content = read_json(path)
    refuse_newer(content, path)
    return decoded(RowPlan, content, folder)


def refuse_newer(plan: object, path: Path) -> None:
    """Raise NewerDataset before anything else is judged: a later format may have other fields."""
    found = plan.get("format") if isinstance(plan, dict) else None
    if type(found) is int and found > FORMAT:
        raise NewerDataset(
            f"{path} has format {found}, and this Slipway reads {FORMAT}",
            hint="use the Slipway that prepared it or a newer one, or prepare the text in another folder",
        )


def read_manifest(folder: Path) -> DatasetManifest:
    content = read_json(folder / "manifest.json")
    refuse_newer(content.get("plan"), folder / "manifest.json")
    shards = content.get("shards")
    plan = decoded(RowPlan, content.get("plan"), folder)
    if not isinstance(shards, list) or plan.format != FORMAT:
        raise DataError(f"{folder}/manifest.json has another format", hint="prepare the dataset again")
    manifest = DatasetManifest(
        plan=plan,
        origin=decoded(InputOrigin, content.get("input"), folder),
        chunk_rows=chunk_rows(plan.row_tokens),
        shards=tuple(decoded(ShardRecord, shard, folder) for shard in shards),
    )
    check_shards(manifest, folder)
    if content != as_json(manifest):
        raise DataError(
            f"{folder}/manifest.json does not match its own digest: it was changed",
            hint="write it again: python -m slipway.containers.data.rows.merge",
        )
    return manifest


def check_shards(manifest: DatasetManifest, folder: Path) -> None:
    names = [shard.name for shard in manifest.shards]
    numbers = [shard.number for shard in manifest.shards]
    twice = {name for name in names if names.count(name) > 1} if len(set(names)) < len(names) else set()
    if twice or len(set(numbers)) < len(numbers):
        raise DataError(
            f"{folder} lists {min(twice, default='a shard')} twice", hint="prepare the dataset again"
        )
    foreign = [shard.name for shard in manifest.shards if shard.plan != manifest.plan.digest]
    if foreign:
        raise DataError(
            f"{folder}/{foreign[0]} was made by another plan", hint="prepare it again in a folder of its own"
        )
