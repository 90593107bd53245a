"""The inputs of a fine-tuning, checked and on this node's disk: rows of JSON lines, and a model folder.

A new form of rows is one entry of FORMS, if TRL knows its columns.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from slipway.containers.data.errors import DataError
from slipway.containers.data.sources.locations import is_remote, open_source, public
from slipway.containers.data.sources.sources import Source, SourceFile
from slipway.containers.models.slices import TensorSlices
from slipway.containers.runtime import disk
from slipway.containers.runtime.contract.contract import LaunchContract
from slipway.containers.runtime.errors import Refusal
from slipway.containers.runtime.node_folders import hold
from slipway.containers.runtime.values import shown
from slipway.containers.training.start import address_of_input

# The columns of a row by method: TRL's "language modeling", "prompt-completion" and "preference" data sets.
FORMS: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "sft": (("messages",), ("prompt", "completion"), ("text",)),
    "dpo": (("prompt", "chosen", "rejected"), ("chosen", "rejected")),
}
_TYPES: Mapping[str, tuple[type, ...]] = {"messages": (list,), "text": (str,)}  # others may be either
_PART_OF_A_ROW = ("tools", "chat_template_kwargs", "image", "images")  # TRL would put them into the prompt
_ROWS, _DIGEST = "rows.jsonl", "rows.sha256"
_PREFIX = "sft-"
_UNUSED_SECONDS = 24 * 3600.0
_BLOCK_BYTES = 8 << 20
_LONGEST_LINE_BYTES = 64 << 20
# The files of a model folder that transformers reads: no pickles, and no code.
_MODEL_FILES = (".json", ".safetensors", ".txt", ".jinja", ".model")


@dataclass(frozen=True, slots=True, kw_only=True)
class TuningRows:
    path: Path  # of lines with the columns of one form alone
    sha256: str
    is_chat: bool  # messages, and no texts


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelOnNode:
    folder: Path
    fingerprint: str


def rows_of(place: str, method: str, contract: LaunchContract) -> TuningRows:
    """Check every row, once per node; raise DataError for the first wrong one."""
    source, told = _opened(place, contract)
    files = [file for file in source.files if file.name.endswith((".jsonl", ".json"))]

    def fill(folder: Path) -> None:
        digest = disk.write_new(folder / _ROWS, _checked_rows(source, files, method))
        if not digest.bytes:
            raise DataError(
                f"{told} has no rows", hint="give JSON lines, .jsonl: a row is an object on one line"
            )
        (folder / _DIGEST).write_text(digest.sha256, encoding="utf-8")

    identity = f"rows {method} {told} {contract.run} {contract.attempt} {_version(source)}"
    folder = hold(_PREFIX, identity, fill, _UNUSED_SECONDS)
    with (folder / _ROWS).open(encoding="utf-8") as lines:
        first = json.loads(next(lines))
    return TuningRows(
        path=folder / _ROWS,
        sha256=(folder / _DIGEST).read_text(encoding="utf-8"),
        is_chat=any(isinstance(value, list) for value in first.values()),
    )


def model_of(place: str, contract: LaunchContract) -> ModelOnNode:
    """Return a model folder on this node's disk or a shared file system; refuse one with pickles."""
    source, told = _opened(place, contract)
    if "config.json" not in {file.name for file in source.files}:
        raise Refusal(f"{told} has no config.json", hint="give a whole model directory, as a hub has it")
    fingerprint = TensorSlices.open(told, source).fingerprint()
    if not is_remote(address := address_of_input(contract, place)):
        return ModelOnNode(folder=Path(address), fingerprint=fingerprint)
    wanted = [file for file in source.files if file.name.endswith(_MODEL_FILES) and "/" not in file.name]

    def fill(folder: Path) -> None:
        for file in wanted:
            disk.write_synced(folder / file.name, _blocks(source, file))

    folder = hold(_PREFIX, f"model {told} {_version(source)}", fill, _UNUSED_SECONDS)
    return ModelOnNode(folder=folder, fingerprint=fingerprint)


def _opened(place: str, contract: LaunchContract) -> tuple[Source, str]:
    address = address_of_input(contract, place)
    if not is_remote(address) and not Path(address).exists():
        raise Refusal(f"{address} does not exist", hint="give a path below the data folder, or s3://…")
    return open_source(address, bucket_owner=contract.account), public(address)


def _version(source: Source) -> str:
    return ",".join(f"{file.name} {file.size_bytes} {file.etag}" for file in source.files)


def _blocks(source: Source, file: SourceFile) -> Iterator[bytes]:
    for start in range(0, file.size_bytes, _BLOCK_BYTES):
        yield source.read(file.name, start, min(_BLOCK_BYTES, file.size_bytes - start))


def _lines(source: Source, file: SourceFile) -> Iterator[tuple[str, bytes]]:
    """Yield lines, each with its name for messages."""
    left, read = b"", 0
    for block in _blocks(source, file):
        *lines, left = (left + block).split(b"\n")
        for number, line in enumerate(lines, start=read + 1):
            yield f"{file.name}, line {number}", line
        read += len(lines)
        if len(left) > _LONGEST_LINE_BYTES:
            raise DataError(
                f"{file.name} has a line above {_LONGEST_LINE_BYTES >> 20} MiB", hint="a row is one line"
            )
    yield f"{file.name}, line {read + 1}", left


def _checked_rows(source: Source, files: Sequence[SourceFile], method: str) -> Iterator[bytes]:
    """Yield each row as a line with the columns that are trained on: all have the first one's form."""
    first = ""
    for file in files:
        for where, line in _lines(source, file):
            if not line.strip():
                continue
            row = _row(where, line, method)
            kind = "messages" if any(isinstance(value, list) for value in row.values()) else "text"
            form = f"{' and '.join(row)} as {kind}"
            first = first or form
            if form != first:
                raise DataError(
                    f"{where} has {form}, and the first row {first}", hint="give rows of one form"
                )
            yield json.dumps(row).encode() + b"\n"


def _row(where: str, line: bytes, method: str) -> dict[str, object]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        row = None
    if not isinstance(row, dict):
        raise DataError(f"{where} is no JSON object", hint="a row is an object on one line")
    columns = next((form for form in FORMS[method] if row.keys() >= set(form)), None)
    if columns is None:
        wanted = "; or ".join(" and ".join(form) for form in FORMS[method])
        raise DataError(
            f"{where} has {', '.join(map(shown, row)) or 'nothing'}", hint=f"{method} reads {wanted}"
        )
    if lost := next((name for name in _PART_OF_A_ROW if row.get(name)), None):
        raise DataError(
            f"{where} has '{lost}', which {method} leaves out: it would learn another prompt",
            hint="write it into the messages' content, or train with a command of your own",
        )
    for name in columns:
        value = row[name]
        is_right = _are_messages(value) if isinstance(value, list) else isinstance(value, str) and value
        if not is_right or not isinstance(value, _TYPES.get(name, type(row[columns[0]]))):
            raise DataError(
                f"{where} has {shown(json.dumps(value))} as its {name}",
                hint='texts are texts, messages are [{"role": "user", "content": "…"}]; a row has one kind',
            )
    return {name: row[name] for name in columns}


def _are_messages(value: list[object]) -> bool:
    return bool(value) and all(
        isinstance(one, dict)
        and one.keys() == {"role", "content"}
        and all(isinstance(text, str) for text in one.values())
        for one in value
    )
