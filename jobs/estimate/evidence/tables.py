"""The tables of five articles, as they print them. A new table is one row of TABLES.

Row 1 gives the utilisation. The network efficiency is fitted on the second row of the table named as `peer`,
which is of the same family; a table without a peer fits it on its own second row, which then proves nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from slipway.jobs.estimate.hardware import cluster_of
from slipway.jobs.estimate.work.models import MODELS
from slipway.jobs.estimate.work.shapes import Hardware, Layout, Model
from slipway.jobs.words.catalogue.instances import instance_type


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedJob:
    """Hold what a table of times ran: whole epochs of this many examples."""

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
    date: str
    instance: str
    model: str
    layout: Layout
    rows: tuple[Row, ...]
    peer: str  # "": none; efficiency is fitted on the table's own second row
    job: PublishedJob | None = None
    usd_per_node_hour: float | None = None

    def cluster(self, nodes: int) -> Hardware:
        return cluster_of(instance_type(self.instance), nodes)

    @property
    def shape(self) -> Model:
        return MODELS[self.model]


def _rates(*pairs: tuple[int, float]) -> tuple[Row, ...]:
    return tuple(Row(nodes=nodes, sequences_per_second=rate) for nodes, rate in pairs)


def _times(*pairs: tuple[int, int]) -> tuple[Row, ...]:
    return tuple(Row(nodes=nodes, seconds=seconds) for nodes, seconds in pairs)


def _priced(*rows: tuple[int, float, int]) -> tuple[Row, ...]:
    return tuple(
        Row(nodes=nodes, sequences_per_second=rate, tokens_per_dollar=tokens) for nodes, rate, tokens in rows
    )


_ON_PROCESSORS = Layout(micro_batch=32, gradient_bytes=4)
_DL1 = "AWS machine-learning blog on DeepSpeed and Gaudi (DL1)"
_TRN1 = "AWS machine-learning blog on GPT-NeoX and Pythia on Trainium"
_C6I = "Hugging Face blog on distributed fine-tuning on Intel processors"
_HOUR, _MINUTE = 3600, 60

TABLES: Mapping[str, Table] = {
    table.name: table
    for table in (
        Table(
            name="dl1/bert-large",
            source=_DL1,
            date="2022",
            instance="dl1.24xlarge",
            model="bert-large",
            # The article gives the global batch; 64 for each device and gradients in 32 bit are assumed.
            layout=Layout(micro_batch=64, global_batch=65536, gradient_bytes=4),
            rows=_rates((1, 1379.76), (2, 2705.57), (4, 5291.58), (8, 9977.54)),
            peer="dl1/bert-1.5b",
        ),
        Table(
            name="dl1/bert-1.5b",
            source=_DL1,
            date="2022",
            instance="dl1.24xlarge",
            model="bert-1.5b",
            layout=Layout(
                micro_batch=16,
                accumulation_steps=24,
                sharding="zero1",
                gradient_bytes=4,
                gradient_sum_bytes=4,
            ),
            rows=_rates((1, 276.66), (8, 1883.63), (16, 3659.15)),
            peer="",
        ),
        Table(
            name="trn1/pythia-6.9b",
            source=_TRN1,
            date="2023",
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
            date="2023",
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
            date="2021",
            instance="c6i.16xlarge",
            model="bert-base-cased",
            layout=_ON_PROCESSORS,
            rows=_times((1, 7 * _MINUTE + 46), (2, 4 * _MINUTE + 39), (4, 2 * _MINUTE + 36)),
            peer="c6i/qqp",
            job=PublishedJob(examples=3668, epochs=3),  # GLUE's own count of training pairs
        ),
        Table(
            name="c6i/qqp",
            source=_C6I,
            date="2021",
            instance="c6i.16xlarge",
            model="bert-base-cased",
            layout=_ON_PROCESSORS,
            rows=_times(
                (1, 11 * _HOUR + 22 * _MINUTE), (2, 6 * _HOUR + 38 * _MINUTE), (4, 3 * _HOUR + 51 * _MINUTE)
            ),
            peer="",
            job=PublishedJob(examples=363_846, epochs=3),
        ),
    )
}
