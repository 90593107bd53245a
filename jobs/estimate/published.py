"""The tables that five articles print, and what we predict for them. A new table is one row of TABLES.

Row 1 gives utilisation. Network efficiency comes from the table named as `peer`, of the same family, fitted
on that one's second row; a table without peer fits it on its own second row, which then proves nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from jobs.core.instances import instance_type
from jobs.estimate.duration import job_seconds, steps_of, tokens_per_dollar
from jobs.estimate.hardware import cluster_of
from jobs.estimate.models import MODELS
from jobs.estimate.priors import STARTUP_SECONDS
from jobs.estimate.rate import Throughput, fit_network_efficiency, fit_utilisation, throughput
from jobs.estimate.shapes import Calibration, Cluster, Layout, Model

LIMIT = 0.04  # of a row that gave no number, with network efficiency from another table
TIMED_LIMIT = 0.05  # of a whole job's time
STRANGER_LIMIT = 0.06  # with no row of the table itself: utilisation and efficiency from its family's others
# By basis, and whether the table prints whole jobs' times. A short job by a long one's row: no promise.
_LIMITS = {
    ("predicted", False): LIMIT,
    ("predicted", True): TIMED_LIMIT,
    ("stranger", False): STRANGER_LIMIT,
    ("stranger", True): None,
}
_FITTABLE = 0.03  # of a step that must be communication before efficiency may be fitted on it


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What a table that prints times ran: whole epochs over so many examples."""

    examples: int
    epochs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    nodes: int
    sequences_per_second: float | None = None
    seconds: float | None = None
    tokens_per_dollar: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    name: str
    source: str
    instance: str
    model: str
    layout: Layout
    rows: tuple[Row, ...]
    peer: str  # "": none, efficiency is fitted on the table's own second row
    job: Job | None = None
    usd_per_node_hour: float | None = None

    def cluster(self, nodes: int) -> Cluster:
        return cluster_of(instance_type(self.instance), nodes)

    @property
    def shape(self) -> Model:
        return MODELS[self.model]


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """One row, ours beside the published one."""

    table: str
    nodes: int
    devices: int
    basis: str  # calibrated: the row gave a number; predicted; stranger: with no row of its table
    unit: str
    published: float
    predicted: float
    limit: float | None  # None: the row was used to calibrate, or no limit was promised

    @property
    def error(self) -> float:
        return self.predicted / self.published - 1

    @property
    def passes(self) -> bool:
        return self.limit is None or abs(self.error) <= self.limit


def check() -> Iterator[Checked]:
    for table in TABLES.values():
        yield from _check_rows(table, calibrate(table), "predicted")
        yield from _check_rows(table, stranger(table), "stranger")
        yield from _check_dollars(table)


def calibrate(table: Table) -> Calibration:
    own = efficiency_of(TABLES[table.peer]) if table.peer else efficiency_of(table)
    first = table.rows[0]
    return fit_utilisation(
        table.shape,
        table.cluster(first.nodes),
        table.layout,
        sequences_per_second=rate_of(table, first),
        network_efficiency=own,
    )


def stranger(table: Table) -> Calibration:
    """As if the table had never been printed: what its family's other one gives, and else the prior."""
    other = next(each for each in TABLES.values() if each.instance == table.instance and each is not table)
    return replace(calibrate(other), network_efficiency=efficiency_of(other))


def efficiency_of(table: Table) -> float | None:
    """None where too little of the second row is communication: the class's prior is better than that fit."""
    first, second = table.rows[:2]
    own = fit_utilisation(
        table.shape,
        table.cluster(first.nodes),
        table.layout,
        sequences_per_second=rate_of(table, first),
    )
    cluster = table.cluster(second.nodes)
    taken = throughput(table.shape, cluster, table.layout, own).step
    if taken.data / taken.seconds < _FITTABLE:
        return None
    assert own.utilisation is not None
    fitted = fit_network_efficiency(
        table.shape,
        cluster,
        table.layout,
        sequences_per_second=rate_of(table, second),
        utilisation=own.utilisation,
    )
    return fitted.network_efficiency


def rate_of(table: Table, row: Row) -> float:
    """Sequences a second; of a table of times what its steps took without the start-up."""
    if row.sequences_per_second is not None:
        return row.sequences_per_second
    assert table.job is not None, f"table {table.name} prints times and names no job"
    assert row.seconds is not None, (
        f"table {table.name}: a row of {row.nodes} nodes has neither rate nor time"
    )
    batch = row.nodes * table.layout.micro_batch
    steps = steps_of(table.job.examples, table.job.epochs, batch)
    return batch * steps / (row.seconds - STARTUP_SECONDS)


def _check_rows(table: Table, own: Calibration, basis: str) -> Iterator[Checked]:
    limit = _LIMITS[basis, table.job is not None]
    for index, row in enumerate(table.rows):
        used = basis == "predicted" and (index == 0 or (index == 1 and not table.peer))
        cluster = table.cluster(row.nodes)
        made = throughput(table.shape, cluster, table.layout, own)
        published, predicted, unit = _compared(table, row, made)
        yield Checked(
            table=table.name,
            nodes=row.nodes,
            devices=cluster.devices,
            basis="calibrated" if used else basis,
            unit=unit,
            published=published,
            predicted=predicted,
            limit=None if used else limit,
        )


def _compared(table: Table, row: Row, made: Throughput) -> tuple[float, float, str]:
    if row.sequences_per_second is not None:
        return row.sequences_per_second, made.sequences_per_second, "seq/s"
    assert table.job is not None
    assert row.seconds is not None
    steps = steps_of(table.job.examples, table.job.epochs, made.sequences_per_step)
    return row.seconds, job_seconds(made, steps), "s"


def _check_dollars(table: Table) -> Iterator[Checked]:
    """Exact: the throughput is given."""
    for row in table.rows:
        if row.tokens_per_dollar is None or table.usd_per_node_hour is None:
            continue
        assert row.sequences_per_second is not None
        per_hour = table.usd_per_node_hour * row.nodes
        ours = tokens_per_dollar(row.sequences_per_second, table.shape.sequence_length, per_hour)
        assert ours is not None
        yield Checked(
            table=table.name,
            nodes=row.nodes,
            devices=table.cluster(row.nodes).devices,
            basis="arithmetic",
            unit="tokens/$",
            published=row.tokens_per_dollar,
            predicted=ours,
            limit=0.0,
        )


def _rates(*pairs: tuple[int, float]) -> tuple[Row, ...]:
    return tuple(Row(nodes=nodes, sequences_per_second=rate) for nodes, rate in pairs)


def _times(*pairs: tuple[int, int]) -> tuple[Row, ...]:
    return tuple(Row(nodes=nodes, seconds=seconds) for nodes, seconds in pairs)


def _priced(*rows: tuple[int, float, int]) -> tuple[Row, ...]:
    return tuple(
        Row(nodes=nodes, sequences_per_second=rate, tokens_per_dollar=tokens) for nodes, rate, tokens in rows
    )


_ON_PROCESSORS = Layout(micro_batch=32, gradient_bytes=4)
_DL1 = "AWS machine-learning blog on DeepSpeed and Gaudi (DL1), 2022"
_TRN1 = "AWS machine-learning blog on GPT-NeoX and Pythia on Trainium, 2023"
_C6I = "Hugging Face blog on distributed fine-tuning on Intel processors, 2021"
_HOUR, _MINUTE = 3600, 60

TABLES: Mapping[str, Table] = {
    table.name: table
    for table in (
        Table(
            name="dl1/bert-large",
            source=_DL1,
            instance="dl1.24xlarge",
            model="bert-large",
            # The article gives the global batch; 64 a device and gradients in 32 bit are assumed.
            layout=Layout(micro_batch=64, global_batch=65536, gradient_bytes=4),
            rows=_rates((1, 1379.76), (2, 2705.57), (4, 5291.58), (8, 9977.54)),
            peer="dl1/bert-1.5b",
        ),
        Table(
            name="dl1/bert-1.5b",
            source=_DL1,
            instance="dl1.24xlarge",
            model="bert-1.5b",
            layout=Layout(micro_batch=16, accumulation_steps=24, sharding="zero1", gradient_bytes=4),
            rows=_rates((1, 276.66), (8, 1883.63), (16, 3659.15)),
            peer="",
        ),
        Table(
            name="trn1/pythia-6.9b",
            source=_TRN1,
            instance="trn1.32xlarge",
            model="pythia-6.9b",
            layout=Layout(micro_batch=1, global_batch=256, tensor=8, sharding="zero1", gradient_bytes=4),
            rows=_priced((1, 10.4, 10_102_387), (4, 35.8, 8_693_881)),
            peer="",
            usd_per_node_hour=7.59,
        ),
        Table(
            name="trn1/gpt-neox-20b",
            source=_TRN1,
            instance="trn1.32xlarge",
            model="gpt-neox-20b",
            layout=Layout(
                micro_batch=1, global_batch=16384, tensor=8, pipeline=4, sharding="zero1", gradient_bytes=4
            ),
            rows=_priced(
                (4, 13.60, 3_302_704),
                (8, 26.80, 3_254_134),
                (16, 54.30, 3_296_632),
                (32, 107.50, 3_263_241),
                (64, 212.00, 3_217_708),
            ),
            peer="trn1/pythia-6.9b",
            usd_per_node_hour=7.59,
        ),
        Table(
            name="c6i/mrpc",
            source=_C6I,
            instance="c6i.16xlarge",
            model="bert-base-cased",
            layout=_ON_PROCESSORS,
            rows=_times((1, 7 * _MINUTE + 46), (2, 4 * _MINUTE + 39), (4, 2 * _MINUTE + 36)),
            peer="c6i/qqp",
            job=Job(examples=3668, epochs=3),  # GLUE's own count of training pairs
        ),
        Table(
            name="c6i/qqp",
            source=_C6I,
            instance="c6i.16xlarge",
            model="bert-base-cased",
            layout=_ON_PROCESSORS,
            rows=_times(
                (1, 11 * _HOUR + 22 * _MINUTE), (2, 6 * _HOUR + 38 * _MINUTE), (4, 3 * _HOUR + 51 * _MINUTE)
            ),
            peer="",
            job=Job(examples=363_846, epochs=3),
        ),
    )
}
