"""Compares our predictions with the tables that five articles print (tables.py), each within a limit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from slipway.jobs.estimate.estimates import job_seconds, steps_of, tokens_per_dollar
from slipway.jobs.estimate.evidence.calibrations import FITTABLE
from slipway.jobs.estimate.evidence.tables import TABLES, Row, Table
from slipway.jobs.estimate.hardware import STARTUP_SECONDS, cluster_of
from slipway.jobs.estimate.work.rate import fit_network_efficiency, fit_utilisation, throughput
from slipway.jobs.estimate.work.shapes import Calibration
from slipway.jobs.estimate.work.spread import interval_of
from slipway.jobs.estimate.work.workloads import SST2_EXAMPLES, WORKLOADS
from slipway.jobs.words.catalogue.instances import instance_type

LIMIT = 0.04  # for a row on which nothing was fitted, with network efficiency from another table
TIMED_LIMIT = 0.05  # for a whole job's time
STRANGER_LIMIT = 0.06  # for a table of which no row is known: both numbers are from its family's other tables
# By basis, and whether the table prints whole jobs' times. Short jobs from a long one's row have no limit.
_LIMITS = {
    ("predicted", False): LIMIT,
    ("predicted", True): TIMED_LIMIT,
    ("stranger", False): STRANGER_LIMIT,
    ("stranger", True): None,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """Hold one row: our prediction and the published number."""

    table: str
    nodes: int
    devices: int
    basis: str  # calibrated: fitted on the row; predicted; stranger: no row of its table used
    unit: str
    published: float
    predicted: float
    limit: float | None  # None: a number was fitted on the row, or no limit was promised

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
    """Calibrate as if the table had never been printed: by its family's other table, else by the prior."""
    other = next(each for each in TABLES.values() if each.instance == table.instance and each is not table)
    return replace(calibrate(other), network_efficiency=efficiency_of(other))


def efficiency_of(table: Table) -> float | None:
    """Fit the network efficiency; return None if the second row has too little communication for that."""
    first, second = table.rows[:2]
    own = fit_utilisation(
        table.shape,
        table.cluster(first.nodes),
        table.layout,
        sequences_per_second=rate_of(table, first),
    )
    cluster = table.cluster(second.nodes)
    taken = throughput(table.shape, cluster, table.layout, own).step
    if taken.data / taken.seconds < FITTABLE:
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
    """Return sequences per second; of a table of times, the rate of its steps without the start-up."""
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
        if row.sequences_per_second is not None:
            published, predicted, unit = row.sequences_per_second, made.sequences_per_second, "seq/s"
        else:
            assert table.job is not None
            assert row.seconds is not None
            steps = steps_of(table.job.examples, table.job.epochs, made.sequences_per_step)
            published, predicted, unit = row.seconds, job_seconds(made, steps), "s"
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


def _check_dollars(table: Table) -> Iterator[Checked]:
    """Check tokens per dollar with the throughput given, so the result must be exact."""
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


# GPT-J 6B on SST-2: an article prints its times and no shapes. The epochs for each padded length are only for
# information: with the length unknown, nothing can be right or wrong.
PUBLISHED_SECONDS = 10 * 60.0  # "under ten minutes", from 58
LENGTHS = (32, 64, 128, 256)


@dataclass(frozen=True, slots=True, kw_only=True)
class Assumed:
    sequence_length: int
    seconds: float
    least_seconds: float
    most_seconds: float
    published_seconds: float = PUBLISHED_SECONDS


def epochs_by_length() -> Iterator[Assumed]:
    """Yield one epoch for each length, predicted from the class's prior, with the range of its times."""
    own, cluster = WORKLOADS["gpt-j-6b-sst2"], cluster_of(instance_type("p4d.24xlarge"), 1)
    for length in LENGTHS:
        made = throughput(replace(own.model, sequence_length=length), cluster, own.layout)
        seconds = job_seconds(made, steps_of(SST2_EXAMPLES, 1, made.sequences_per_step))
        least, most = interval_of(seconds, made.spread)
        yield Assumed(
            sequence_length=length,
            seconds=seconds,
            least_seconds=least,
            most_seconds=most,
        )
