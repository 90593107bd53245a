"""Reads rates that somebody published, or a user measured elsewhere, from a CSV with one rate in each line.

Every mistake of every line is reported at once. Another column is one row of COLUMNS, and its use here.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches

from slipway.jobs.estimate.errors import CannotEstimate
from slipway.jobs.estimate.evidence.measurements import Asked, Measurement, unfitted
from slipway.jobs.estimate.evidence.named_hardware import (
    HARDWARE,
    PRECISIONS,
    at_precision,
    device_named,
    hardware_named,
    is_hardware,
    usual_gradient_bytes,
)
from slipway.jobs.estimate.prices import written_rows
from slipway.jobs.estimate.work.models import MODELS, length_name
from slipway.jobs.estimate.work.rate import fit_utilisation
from slipway.jobs.estimate.work.shapes import (
    CHECKPOINTING,
    LARGEST_AMOUNT,
    LARGEST_COUNT,
    SCHEDULES,
    SHARDINGS,
    Hardware,
    Layout,
    Model,
    accumulation,
)
from slipway.jobs.estimate.work.workloads import described
from slipway.jobs.words.errors import InvalidConfig, Problem

_MOST_ROWS = 10_000
_MOST_MISTAKES = 20  # printed; others are counted
_CHUNKS = 2  # of an interleaved schedule, if the table does not say how many
_OF_LAYOUT = (
    *("micro_batch", "global_batch", "tensor", "pipeline", "sharding", "schedule", "checkpointing"),
    *("sequence_parallel", "fused"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """Hold one published row: what ran, its rate, and the table that printed it."""

    table: str
    device: str  # in the words of jobs/words/catalogue/instances.py
    asked: Asked
    sequences_per_second: float
    is_own: bool = False  # True: measured on the user's machines
    text: tuple[tuple[str, str], ...] = ()  # its columns as they were read

    @property
    def key(self) -> tuple[tuple[str, str], ...]:
        """Return all but the rate: a row that is read again replaces the one with the same key."""
        return tuple((name, value) for name, value in self.text if name not in RATES)


PublishedLine = tuple[int, Mapping[str, str]]


class UnusableRows(InvalidConfig):
    """Names every line that cannot be used, and the reason."""


def decode_published(
    text: str, where: str, check: Callable[[Published, int], object] = lambda row, line: None
) -> tuple[Published, ...]:
    """Decode a CSV of published rows, or refuse it with every mistake of every line.

    `check` gets each row with its line, and may refuse it, too.
    """
    return decode_lines(published_lines(text, where), where, check)


def decode_lines(
    lines: Sequence[PublishedLine],
    where: str,
    check: Callable[[Published, int], object] = lambda row, line: None,
) -> tuple[Published, ...]:
    """Decode some lines of such a file."""
    rows: list[Published] = []
    problems: list[Problem] = []
    for number, line in lines:
        place = f"{where}, line {number}"
        try:
            rows.append(_decode(line, place))
            check(rows[-1], number)
        except UnusableRows as error:
            problems += error.problems
        except CannotEstimate as error:
            problems.append(Problem(where=place, message=error.message, hint=error.hint))
    if len(problems) > _MOST_MISTAKES:
        more = Problem(where=where, message=f"and {len(problems) - _MOST_MISTAKES} more")
        problems = [*problems[:_MOST_MISTAKES], more]
    if problems:
        raise UnusableRows(problems)
    return tuple(rows)


def check_of_new_rows() -> Callable[[Published, int], None]:
    """Return a check that refuses impossible rates, and a second, different rate of the same run.

    Of two rates of one run, only the last would count, and the user could not tell why.
    """
    seen: dict[tuple[tuple[str, str], ...], tuple[int, float]] = {}

    def check(row: Published, line: int) -> None:
        of, rate = row.asked, row.sequences_per_second
        try:
            # Refuses a rate that the hardware cannot reach at its full peak.
            fit_utilisation(of.model, of.cluster, of.layout, sequences_per_second=rate)
        except CannotEstimate as error:
            raise CannotEstimate(f"column {RATES[0]}: {error.message}", hint=error.hint) from None
        first, before = seen.setdefault(row.key, (line, rate))
        if rate != before:
            raise CannotEstimate(
                f"{rate:g} sequences a second contradicts line {first}, which says {before:g} of this run",
                hint="keep one of the two, or name two tables",
            )

    return check


def as_measurement(row: Published) -> Measurement:
    """Return the row as a measurement, without the fitted numbers."""
    rate = row.sequences_per_second
    return unfitted(row.asked, name=row.table, sequences_per_second=rate, date="", source=row.table)


def encode_published(rows: Iterable[Published]) -> str:
    return written_rows(list(COLUMNS), (dict(row.text) for row in rows))


def published_lines(text: str, where: str) -> Sequence[PublishedLine]:
    """Return each line by its number, as text, after checking the headings."""
    reader = csv.DictReader(
        io.StringIO(text.removeprefix("\ufeff"), newline=None), restkey="", restval="", strict=True
    )
    try:
        _refuse_headings(reader.fieldnames or (), where)
        found = [(reader.line_num, line) for line in reader]
    except csv.Error as error:
        raise CannotEstimate(f"{where}, line {reader.line_num}: {error}", hint="write it as CSV") from None
    if len(found) > _MOST_ROWS:
        raise CannotEstimate(f"{where} has {len(found)} rows; allowed are {_MOST_ROWS:,}")
    if not found:
        raise CannotEstimate(f"{where} has no row", hint="write one line for each rate")
    return found


def _refuse_headings(names: Sequence[str], where: str) -> None:
    for name in names:
        if name not in COLUMNS:
            close = get_close_matches(name, COLUMNS, n=1)
            raise CannotEstimate(
                f"{where}, line 1: there is no column {name!r}; allowed are {', '.join(COLUMNS)}",
                hint=f"did you mean {close[0]}?" if close else "leave it out",
            )
    missing = [name for name, column in COLUMNS.items() if column.is_required and name not in names]
    if not set(RATES) & set(names):
        missing.append(" or ".join(RATES))
    if missing or len(set(names)) < len(names):
        what = f"lacks the column {', '.join(missing)}" if missing else "names a column twice"
        raise CannotEstimate(f"{where}, line 1 {what}", hint=f"columns are {', '.join(COLUMNS)}")


def _decode(line: Mapping[str, str], where: str) -> Published:
    text = {name: (line.get(name) or "").strip() for name in COLUMNS}
    text["table"] = text["table"] or where.rpartition(", line")[0]
    values = _values(text, where, has_more="" in line)
    model = _model(str(values["model"]), values, text)
    cluster = _cluster(values)
    usual = usual_gradient_bytes(cluster, str(values["precision"] or ""))
    layout = Layout(
        **{name: values[name] for name in _OF_LAYOUT if values[name] is not None},  # type: ignore[arg-type]  # COLUMNS reads each
        chunks=_CHUNKS if values["schedule"] == "interleaved" else 1,
        gradient_bytes=float(str(values["gradient_bytes"] or usual)),
    )
    accumulation(model, cluster, layout)
    return Published(
        table=text["table"],
        device=device_named(text["hardware"]),
        asked=Asked(
            instance=text["hardware"],
            model_name=length_name(text["model"], model.sequence_length),
            model=model,
            cluster=cluster,
            layout=layout,
        ),
        sequences_per_second=_rate(values, model),
        is_own=bool(values["own"]),
        text=tuple(text.items()),
    )


def _values(text: Mapping[str, str], where: str, *, has_more: bool) -> dict[str, object]:
    """Read each column; a column without text is None."""
    values: dict[str, object] = {}
    problems = [Problem(where=where, message="there are more values than columns")] if has_more else []

    def refuse(name: str, allowed: str) -> None:
        message = f"column {name} is {text[name]!r}; allowed: {allowed}"
        problems.append(Problem(where=where, message=message))

    for name, column in COLUMNS.items():
        values[name] = column.read(text[name]) if text[name] else None
        if values[name] is None and (text[name] or column.is_required):
            refuse(name, column.allowed)
    if not any(text[name] for name in RATES):
        refuse(RATES[0], RATE.allowed)
    if problems:
        raise UnusableRows(problems)
    return values


_SIZES = ("layers", "hidden_size", "heads", "feed_forward", "vocabulary", "key_value_heads")
_SAID_OF_ANY = ("sequence_length", "head_share", "parameters")  # papers round the last


def _model(name: str, values: Mapping[str, object], text: Mapping[str, str]) -> Model:
    """Return a model of ours, whose sizes may be left out; else the one that the sizes describe."""
    stated = {each: values[each] for each in _SAID_OF_ANY if values[each] is not None}
    if (ours := MODELS.get(name)) is not None:
        for size in (*_SIZES, "causal", "gated"):
            if values[size] not in (None, getattr(ours, size)):
                raise CannotEstimate(
                    f"column {size} is {text[size]!r}; allowed is {getattr(ours, size)}, which {name} has",
                    hint="leave it out, or give this model a name of its own",
                )
        return replace(ours, **stated)  # type: ignore[arg-type]  # COLUMNS reads each
    for required in ("layers", "hidden_size", "sequence_length"):
        if values[required] is None:
            raise CannotEstimate(
                f"column model is {name!r}; allowed are {', '.join(MODELS)}, and any other name with its "
                f"sizes, of which {required} is missing"
            )
    renamed = {"hidden_size": "hidden"}
    sizes = {renamed.get(size, size): text[size] for size in _SIZES if text[size]}
    if values["gated"]:
        sizes["gated"] = "true"
    kind = "encoder" if values["causal"] is False else "decoder"
    return replace(described(kind, sizes).model, **stated)  # type: ignore[arg-type]  # COLUMNS reads each


def _cluster(values: Mapping[str, object]) -> Hardware:
    """Return the hardware of a row; `devices` may be a part of the nodes', such as one device of eight."""
    nodes, devices = values["nodes"], values["devices"]
    assert isinstance(nodes, int)
    whole = hardware_named(str(values["hardware"]), nodes)
    cluster = at_precision(whole, str(values["precision"] or ""))
    if devices is None:
        return cluster
    assert isinstance(devices, int)
    if devices % nodes or devices > whole.devices:
        raise CannotEstimate(
            f"column devices is '{devices}'; allowed are multiples of {nodes} nodes up to {whole.devices}"
        )
    return replace(cluster, devices_per_node=devices // nodes)


def _rate(values: Mapping[str, object], model: Model) -> float:
    """Return sequences a second; refuse two that contradict each other."""
    sequences, tokens = (values[name] for name in RATES)
    if sequences is None:
        return float(str(tokens)) / model.sequence_length
    rate = float(str(sequences))
    if tokens is not None and abs(float(str(tokens)) / model.sequence_length / rate - 1) > 0.01:
        raise CannotEstimate(
            f"column tokens_per_second is '{tokens}'; {rate:g} sequences of {model.sequence_length} tokens "
            f"a second are {rate * model.sequence_length:g}",
            hint="leave one of the two out",
        )
    return rate


# The columns of a CSV of published rates: how each is read, and what is allowed in it. Another column is one
# row of COLUMNS, and its use above.
_TRUTHS = {"yes": True, "no": False}
RATES = ("sequences_per_second", "tokens_per_second")  # a row has one, or both


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnReader:
    """Describe how a column is read; `read` returns None for a value that is not allowed."""

    read: Callable[[str], object]
    allowed: str
    is_required: bool = False


def _count(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdecimal() and 0 < int(text[:20]) <= LARGEST_COUNT else None


def _number(least: float, most: float) -> Callable[[str], float | None]:
    def read(text: str) -> float | None:
        try:
            value = float(text)
        except ValueError:
            return None
        return value if least <= value <= most else None  # also None for nan

    return read


_COUNT = ColumnReader(read=_count, allowed=f"a whole number from 1 to {LARGEST_COUNT:,}")
RATE = ColumnReader(
    read=_number(1e-9, LARGEST_AMOUNT), allowed=f"a number above 0 and below {LARGEST_AMOUNT:g}"
)
_TRUTH = ColumnReader(read=_TRUTHS.get, allowed="yes and no")
_ANY_TEXT = ColumnReader(
    read=lambda text: text if text.isprintable() else None, allowed="any text without control characters"
)
_SHARE = ColumnReader(read=_number(0.0, 1.0), allowed="a number from 0 to 1")
_BYTES = ColumnReader(read=_number(0.25, 16.0), allowed="a number from 0.25 to 16")
_ALL_PRECISIONS = tuple(dict.fromkeys(name for known in PRECISIONS.values() for name in known))


def _words(words: Sequence[str]) -> ColumnReader:
    return ColumnReader(read=lambda text: text if text in words else None, allowed=", ".join(words))


COLUMNS: Mapping[str, ColumnReader] = {
    "table": _ANY_TEXT,
    "hardware": ColumnReader(
        read=lambda text: text if is_hardware(text) else None,
        allowed=f"types that `slipway instance list` lists, and {', '.join(sorted(HARDWARE))}",
        is_required=True,
    ),
    "precision": _words(_ALL_PRECISIONS),
    "model": replace(_ANY_TEXT, is_required=True),
    **dict.fromkeys(("layers", "hidden_size", "heads", "feed_forward", "vocabulary"), _COUNT),
    "sequence_length": _COUNT,
    "causal": _TRUTH,
    "gated": _TRUTH,
    "key_value_heads": _COUNT,
    "head_share": _SHARE,
    "parameters": ColumnReader(read=_number(1.0, LARGEST_AMOUNT), allowed="a number of 1 or more"),
    "nodes": replace(_COUNT, is_required=True),
    "devices": _COUNT,
    "micro_batch": replace(_COUNT, is_required=True),
    **dict.fromkeys(("global_batch", "tensor", "pipeline"), _COUNT),
    "sharding": _words(SHARDINGS),
    "schedule": _words(SCHEDULES),
    "checkpointing": _words(CHECKPOINTING),
    "gradient_bytes": _BYTES,
    "sequence_parallel": _TRUTH,
    "fused": _TRUTH,
    **dict.fromkeys(RATES, RATE),
    "own": _TRUTH,
}
