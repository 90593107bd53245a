"""Write the pages of published figures: the error of the estimate, and the recipes that follow an article."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from statistics import median

from scripts.page_templates import filled, table
from slipway.containers.recipes.gpt_neox.config import SIZES
from slipway.containers.recipes.gpt_neox.config import decode as neox_config
from slipway.containers.recipes.gptj_finetune.config import DRAWN, KNOWN_SIZES
from slipway.containers.recipes.gptj_finetune.config import decode as gptj_config
from slipway.containers.recipes.gptj_finetune.data import LABEL_WORDS, PROMPT
from slipway.jobs.estimate.estimates import estimate, tokens_per_dollar
from slipway.jobs.estimate.evidence.bands import (
    NEAR,
    Band,
    ErrorsOfWord,
    bands_of,
    errors_by_word,
    held_by_accelerator,
    left_out,
    median_width,
)
from slipway.jobs.estimate.evidence.measurements import our_measurements
from slipway.jobs.estimate.evidence.published_rows import COLUMNS, RATES
from slipway.jobs.estimate.evidence.tables import TABLES, Row, Table
from slipway.jobs.estimate.evidence.trials import Trial, trials
from slipway.jobs.estimate.inputs.places import alone, find_place
from slipway.jobs.estimate.inputs.workloads import recipe_workload
from slipway.jobs.estimate.prices import ON_DEMAND, known_rates
from slipway.jobs.estimate.work.workloads import find_workload
from slipway.jobs.words.catalogue.instances import instance_type

# The error of the estimate, computed again from every published row.


def estimate_page() -> str:
    found = list(trials())
    own = left_out(found)
    held = (f"{name} {of} of {rows}" for name, (of, rows) in held_by_accelerator(found).items())
    return filled(
        "estimate",
        near=f"{NEAR:.0%}",
        by_word=table(map(_errors, errors_by_word(found))),
        by_device=table(_cells_of_band(band) for band in bands_of(found) if band.rows),
        by_table=table(_tables(found)),
        judged=(
            f"With the width that all other tables give, ranges held {own.held} of {own.rows} rows, "
            f"{own.held / own.rows:.1%}, and\n{own.held_of_a_table:.1%} of a table's rows on average; the "
            f"median range is ± {median_width(found):.0%}. The widths that are told held\n{', '.join(held)}."
        ),
        columns=table((f"`{name}`{_needed(name)}", column.allowed) for name, column in COLUMNS.items()),
    )


def _needed(name: str) -> str:
    if name in RATES:
        return ", one of the two"
    return ", required" if COLUMNS[name].is_required else ""


def _errors(own: ErrorsOfWord) -> tuple[object, ...]:
    shares = (f"{share:.1%}" for share in (own.mean, own.median, own.ninth))
    return own.word, own.rows, *shares, f"{own.held} of {own.rows}"


def _cells_of_band(band: Band) -> tuple[object, ...]:
    within = "too few" if band.within is None else f"± {band.within:.0%}"
    counted = (band.word, band.device, band.rows, band.tables, f"{band.near} of {band.rows}")
    return *counted, within, f"± {band.told:.0%}", f"{band.held} of {band.rows}"


def _tables(found: Sequence[Trial]) -> Iterator[tuple[object, ...]]:
    def key(trial: Trial) -> tuple[str, str, str]:
        return trial.table, trial.device, trial.word

    for where, same in groupby(sorted(found, key=key), key):
        errors = sorted((each.error for each in same), key=abs)
        near = sum(abs(error) <= NEAR for error in errors)
        shares = (f"{median(errors):+.1%}", f"{errors[-1]:+.1%}")
        yield where[0].replace(":", "/", 1), *where[1:], len(errors), near, *shares


# The recipes that follow an article: how each trains, and the article's figures next to ours.
_NEOX_TABLES = ("trn1/pythia-6.9b", "trn1/gpt-neox-20b")
# Settings of the 6B model whose time the page shows.
_GPTJ_TIMED: tuple[Mapping[str, str], ...] = (
    {"tensor": "8", "micro_batch": "64"},
    {"tensor": "1", "sharded": "8", "micro_batch": "8"},
    {"tensor": "8", "micro_batch": "64", "lora_rank": "8"},
)


def gpt_neox_page() -> str:
    rows = (_neox_row(TABLES[name], row) for name in _NEOX_TABLES for row in TABLES[name].rows)
    tools = filled("other-tools", setting="start_from_model=").strip()
    return filled("gpt-neox", sizes=table(_neox_sizes()), rows=table(rows), other_tools=tools)


def _neox_sizes() -> Iterator[tuple[object, ...]]:
    for size in SIZES:
        config = neox_config({"size": size})
        yield (
            *(f"`{size}`", f"{config.tensor} × {config.pipeline}", config.micro_batch),
            *(config.global_batch, config.length, f"{config.rate:g}", f"{config.least_rate:g}"),
            f"{config.all_steps:,}",
        )


def _neox_row(published: Table, row: Row) -> tuple[object, ...]:
    place = alone(instance_type(published.instance), known_rates(()), region=None, term="3-year")
    found = estimate(find_workload(published.model), place, row.nodes, our_measurements())
    rate, price = found.predicted_sequences_per_second, (published.usd_per_node_hour or 0.0) * row.nodes
    return (
        *(published.model, published.layout.tensor, published.layout.pipeline, row.nodes, f"{price:.2f}"),
        *(published.layout.global_batch, row.sequences_per_second, f"{row.tokens_per_dollar:,}"),
        *(f"{rate:.1f}", f"{tokens_per_dollar(rate, published.shape.sequence_length, price):,}"),
    )


def gptj_page() -> str:
    negative, positive = LABEL_WORDS
    labels = {"prompt": PROMPT.strip(), "negative": negative.strip(), "positive": positive.strip()}
    place = find_place("ml.p4d.24xlarge", known_rates(), region=None, term=ON_DEMAND)
    rows = []
    for settings in _GPTJ_TIMED:
        given = {"size": "gptj-6b", "model": "gpt-j-6b", **settings}
        own = estimate(recipe_workload("gptj_finetune", given), place, 1, our_measurements())
        assert own.hours is not None, "an epoch of SST-2 has an end"
        words = ", ".join(f"`{name}={value}`" for name, value in settings.items())
        rows.append((words, f"{own.hours * 60:.1f}", f"{own.usd:.2f}"))
    assert place.rate is not None, "the page prints its price"
    return filled(
        "gptj",
        sizes=table(_gptj_sizes()),
        other_tools=filled("other-tools", setting="model=").strip(),
        times=table(rows),
        band=f"Nine of ten such predictions\nshould be within ± {own.band:.0%}.",
        region=place.rate.region,
        date=place.rate.date,
        **labels,
    )


def _gptj_sizes() -> Iterator[tuple[object, ...]]:
    for size, known in KNOWN_SIZES.items():
        config = gptj_config({"size": size} if size == DRAWN else {"size": size, "model": "gpt-j-6b"})
        yield (
            *(f"`{size}`", f"{known.layers} × {known.hidden}", config.tensor, config.length),
            *(config.global_batch, config.micro_batch, f"{config.rate:g}"),
            "recomputed" if config.checkpoint_activations == "layer" else "kept",
        )
