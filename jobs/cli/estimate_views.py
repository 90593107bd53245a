"""Prints the other views of `slipway estimate`: `--check`, `--idle`, `--bill`, and its warnings."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import click

from slipway.jobs.output import Column, print_json, print_table, say, warn
from slipway.jobs.words.catalogue.hardware import device_of
from slipway.jobs.words.recipes import RECIPES, find_recipe, refuse_torch
from slipway.jobs.words.text import dollars, duration, money

if TYPE_CHECKING:
    from slipway.infra.declare.types import Cluster
    from slipway.jobs.cloud.templates import Templates
    from slipway.jobs.estimate.estimates import Estimate, PricedHardware
    from slipway.jobs.estimate.evidence.trials import Trial
    from slipway.jobs.estimate.work.workloads import Workload

    Doubt = Callable[[Workload, PricedHardware, Sequence[Estimate]], Iterator[str]]


# Formats the numbers of an estimate for a table.
NO_BAND = "no band"


def rounded(places: int) -> Any:
    def form(value: object) -> str:
        assert isinstance(value, int | float)
        return f"{value:,.{places}f}"

    return form


def percent(value: object) -> str:
    assert isinstance(value, int | float)
    return f"{value * 100:.1f} %"


def band(value: object) -> str:
    assert isinstance(value, int | float)
    return f"± {value * 100:.0f} %"


def steps(value: object) -> str:
    assert isinstance(value, int)
    return f"{value:,} ×"


def hours(value: object) -> str:
    assert isinstance(value, int | float)
    return duration(value)


def ends(form: Any) -> Any:
    """Return a function that formats a range by formatting both of its ends."""

    def both(value: object) -> str:
        assert isinstance(value, list | tuple)
        return f"{form(value[0])} to {form(value[1])}"

    return both


CHECKED = (
    Column(name="table"),
    Column(name="nodes", align="right"),
    Column(name="devices", align="right"),
    Column(name="basis"),
    Column(name="unit"),
    Column(name="published", align="right", format=rounded(2)),
    Column(name="predicted", align="right", format=rounded(2)),
    Column(name="error", align="right", format=percent),
    Column(name="limit", align="right", absent="-", format=band),
    Column(name="verdict"),
)
HELD = (
    Column(name="word", title="basis"),
    Column(name="device"),
    Column(name="rows", align="right"),
    Column(name="tables", align="right"),
    Column(name="near", title="near", align="right"),
    Column(name="within", title="nine of ten within", align="right", absent=NO_BAND, format=band),
    Column(name="told", title="told (median)", align="right", absent="-", format=band),
    Column(name="held", title="in the range told", align="right"),
)


def check_estimates(*, as_json: bool) -> None:
    from slipway.jobs.estimate.evidence.bands import (
        LEAST_ROWS,
        LEAST_TABLES,
        NEAR,
        bands_of,
        errors_by_word,
        left_out,
        median_width,
    )
    from slipway.jobs.estimate.evidence.published import check, epochs_by_length
    from slipway.jobs.estimate.evidence.trials import trials

    rows = list(check())
    tried = list(trials())
    bands, assumed = list(bands_of(tried)), list(epochs_by_length())
    table = [{**asdict(row), "error": row.error, "verdict": _verdict(row)} for row in rows]
    if as_json:
        information = {"gpt-j-6b on SST-2": [asdict(each) for each in assumed]}
        summed = {
            "bands": [asdict(each) for each in bands],
            "errors": [asdict(each) for each in errors_by_word(tried)],
            "ranges": {**asdict(left_out(tried)), "median_width": median_width(tried)},
        }
        print_json({"rows": table, **summed, "information": information})
    else:
        print_table("published and predicted", CHECKED, table, as_json=False)
        click.echo()
        print_table(
            "how near each kind of estimate came, over all published rows",
            HELD,
            [
                {
                    **asdict(each),
                    "near": f"{each.near} of {each.rows}",
                    "held": f"{each.held} of {each.rows}" if each.rows else "-",
                }
                for each in bands
            ],
            as_json=False,
        )
        _say_errors(tried)
        say(f"near is within ± {NEAR:.0%}; a band needs {LEAST_ROWS} rows of {LEAST_TABLES} tables")
        say("each row is estimated without its own table, or with the smallest run of its model in it")
        say("GPT-J 6B, an epoch of SST-2 on one p4d.24xlarge: the article says from 58 minutes to under 10,")
        lengths = (
            f"{each.sequence_length} tokens {each.least_seconds / 60:.1f} to {each.most_seconds / 60:.1f} min"
            for each in assumed
        )
        say(f"and no padded length. For information: {'; '.join(lengths)}")
    failed = [row for row in rows if not row.passes]
    say(f"{len(rows) - len(failed)} of {len(rows)} rows are within their limits")
    if failed:
        raise click.exceptions.Exit(1)


def _say_errors(tried: Sequence[Trial]) -> None:
    from slipway.jobs.estimate.evidence.bands import errors_by_word, left_out, median_width

    for each in errors_by_word(tried):
        say(
            f"{each.word}, {each.rows} rows: off by {each.mean:.1%} on average, {each.median:.1%} in the "
            f"median, {each.ninth:.1%} at nine of ten; {each.held} in the range told"
        )
    judged, width = left_out(tried), median_width(tried)
    say(
        f"ranges, ± {width:.0%} in the median, held {judged.held / judged.rows:.1%} of rows and "
        f"{judged.held_of_a_table:.1%} of a table, each judged by the width that all other tables give"
    )


def _verdict(checked: Any) -> str:
    if checked.limit is None:
        return "used" if checked.basis == "calibrated" else "no limit"
    return "within" if checked.passes else "OUT"


# `slipway estimate --idle`: lists the monthly cost of each part of a cluster while nothing runs.
ESTIMATE_IDLE_COLUMNS = (
    Column(name="stack"),
    Column(name="item"),
    Column(name="count", align="right"),
    Column(name="usd_per_month", title="cost", unit="USD/month", align="right", format=dollars),
    Column(name="note", title="price"),
)


def estimate_idle(name: str, *, as_json: bool) -> None:
    from slipway.infra.declare.declared import declared_cluster
    from slipway.jobs.clusters.bill import is_shared, standing_items, total_usd_per_month

    cluster = declared_cluster(name)
    templates, words = _templates(cluster)
    items = standing_items(templates, cluster.region)
    print_table(
        f"{name} while nothing runs, {words}, prices of {cluster.region}",
        ESTIMATE_IDLE_COLUMNS,
        [asdict(item) for item in items],
        as_json=as_json,
    )
    unshared = [item for item in items if not is_shared(item.stack)]
    shared = [item for item in items if is_shared(item.stack)]
    say(
        f"{name}: {money(total_usd_per_month(unshared))} USD a month, and what is stored; "
        "nodes are not counted"
    )
    if shared:
        say(
            f"its bakery: {money(total_usd_per_month(shared))} USD a month while its stacks stand; other "
            "images of the region share the network"
        )


def _templates(cluster: Cluster) -> tuple[Templates, str]:
    """Return the deployed templates, or else those that a deployment would create."""
    from slipway.jobs.cloud.aws import Unanswered
    from slipway.jobs.cloud.templates import declared_templates, deployed_templates, stack_names
    from slipway.jobs.clusters.bill import is_shared

    deployed = deployed_templates(stack_names(cluster), cluster.region)
    if isinstance(deployed, Unanswered):
        warn(f"{deployed.action} gave no answer ({deployed.code}), so this is what is declared")
    elif any(not is_shared(stack) for stack in deployed):
        return deployed, "as it is deployed"
    return declared_templates(cluster.name), "as it is declared"


# `slipway estimate --bill`: prints the whole bill of a job at one or more sizes.
BILL_COLUMNS = (
    Column(name="nodes", align="right"),
    Column(name="item"),
    Column(name="hours", title="time", align="right", format=hours),
    Column(name="usd", title="cost", unit="USD", align="right", format=dollars),
    Column(name="basis", title="basis"),
)


def print_bill(
    title: str,
    place: PricedHardware,
    found: Sequence[Estimate],
    assumptions: Sequence[str],
    *,
    as_json: bool,
) -> None:
    from slipway.jobs.estimate.bill import NOT_COUNTED, assumed, bill

    taken = assumed(assumptions)
    lines = [{"nodes": size.nodes, **asdict(line)} for size in found for line in bill(size, place, taken)]
    print_table(f"the bill of {title}", BILL_COLUMNS, lines, as_json=as_json)
    for each in NOT_COUNTED:
        say(f"not counted: {each}")


# Warnings of an estimate: settings that work and cost more than expected. Another is one row of DOUBTS. For
# each micro-batch, a device reads every weight once and does two operations with it for each token. In the
# time it reads a byte, an A100 does 200 operations (312 TFLOP/s over 1.6 TB/s), an H100 295. With fewer
# tokens it waits for its memory.
FEW_TOKENS = 300
# Forward and backward of one compiled layer of BERT-Large, on an H200: 24 layers took 57 ms for a micro-batch
# of 16 rows, and 42 ms for 64 rows (docs/benchmarks.md). Larger micro-batches reached 43 % of the peak. A
# layer that at the peak would take less than LEAST_SHARE of HOST_SECONDS takes HOST_SECONDS.
HOST_SECONDS, LEAST_SHARE = 2e-3, 0.25


def doubts(workload: Workload, place: PricedHardware, found: Sequence[Estimate]) -> Iterator[str]:
    """Yield a warning for each setting that costs more than expected."""
    for doubt in DOUBTS:
        yield from doubt(workload, place, found)


def refused_layouts(job: str, place: PricedHardware, settings: Sequence[str]) -> Iterator[str]:
    """Yield the reason if submitting would be refused: the layout is not proved on the cluster's image."""
    from slipway.jobs.words.job import DoesNotFit, parse_settings

    try:
        if job in RECIPES:
            refuse_torch(find_recipe(job), parse_settings(tuple(settings)), place.instance, place.torch)
    except DoesNotFit as refused:
        yield f"slipway submit would refuse it: {refused.message}; {refused.hint}"


def _idle_devices(workload: Workload, place: PricedHardware, _found: Sequence[Estimate]) -> Iterator[str]:
    rows = workload.layout.micro_batch
    tokens = rows * workload.model.sequence_length
    if workload.name in RECIPES and place.instance.accelerator and tokens < FEW_TOKENS:
        yield (
            f"a micro-batch of {rows} rows has {tokens} tokens, and with fewer than some {FEW_TOKENS} an "
            "accelerator waits for its memory: it will be slower than this, so set a larger micro_batch"
        )


def _uneven_stages(workload: Workload, _place: PricedHardware, _found: Sequence[Estimate]) -> Iterator[str]:
    from slipway.jobs.estimate.work.step import uneven

    layout, model = workload.layout, workload.model
    if (share := uneven(model, layout)) > 1:
        yield (
            f"{model.layers} layers over {layout.pipeline} stages are uneven: all wait for the fullest, "
            f"which makes a step {share - 1:.0%} longer"
        )


def _tensors_across_nodes(
    workload: Workload, place: PricedHardware, found: Sequence[Estimate]
) -> Iterator[str]:
    from slipway.jobs.estimate.errors import CannotEstimate
    from slipway.jobs.estimate.estimates import estimate
    from slipway.jobs.estimate.inputs.own_data import measurements

    layout = workload.layout
    for size in found:
        in_node = size.devices // size.nodes
        if layout.tensor > in_node:
            inside = replace(workload, layout=replace(layout, tensor=in_node))
            with suppress(CannotEstimate):
                rate = estimate(inside, place, size.nodes, measurements()).sequences_per_second
                yield (
                    f"tensor degree {layout.tensor} crosses nodes of {in_node} devices: on {size.nodes} "
                    f"nodes tensor={in_node} trains {rate / size.sequences_per_second:.1f} times as fast"
                )


def _waits_for_its_host(
    workload: Workload, place: PricedHardware, _found: Sequence[Estimate]
) -> Iterator[str]:
    """Warn if a GPU computes faster than its processor starts kernels: the estimate has no term for that."""
    layout, model, accelerator = workload.layout, workload.model, place.instance.accelerator
    if accelerator is None or accelerator.peak_tflops is None or device_of(place.instance) != "cuda":
        return
    if workload.name not in RECIPES:
        return
    matrices = model.hidden_size * (4 * model.hidden_size + 2 * model.feed_forward) / layout.tensor
    at_peak = 6 * layout.micro_batch * model.sequence_length * matrices / (accelerator.peak_tflops * 1e12)
    if at_peak < LEAST_SHARE * HOST_SECONDS:
        yield (
            f"a micro-batch of {layout.micro_batch} rows is {at_peak * 1e3:.2g} ms of work for a GPU in each "
            f"layer, which the processor took {HOST_SECONDS * 1e3:g} ms to start on the one H200 tried: "
            f"that leaves {at_peak / HOST_SECONDS:.0%} of its peak; set a larger micro_batch, and fewer "
            "accumulation_steps where the batch should stay"
        )


DOUBTS: tuple[Doubt, ...] = (_idle_devices, _waits_for_its_host, _uneven_stages, _tensors_across_nodes)


# Says which run the numbers of an estimate are of: its sequences, batches, layout and end, and how it differs
# from the article's. A recipe's article run is one row of ARTICLE_RUNS: the settings that make the recipe
# train what its article measured, and which run that is.
ARTICLE_RUNS: Mapping[str, Mapping[str, str]] = {
    "bert_pretrain": {"BERT-Large": "size=large", "BERT-1.5B": "size=1.5b zero=1"},
    "glue_finetune": {"MRPC": "model=models/bert-base-cased"},
    "gpt_neox": {
        "GPT-NeoX 20B": "size=neox-20b global_batch=16384",
        "Pythia 6.9B": "size=pythia-6.9b global_batch=1024",
    },
}
_DEGREES = (("tensor", "tensor {}"), ("pipeline", "{} pipeline stages"))


def run_words(workload: Workload, found: Sequence[Estimate]) -> str:
    """Describe the run: what a recipe with these settings trains, or what the model's name means."""
    layout = found[0].layout
    steps = [
        f"{size.sequences_per_step:,} a step on {size.nodes} node{'s' * (size.nodes > 1)}" for size in found
    ]
    is_fixed = len({size.sequences_per_step for size in found}) == 1 < len(found)
    words = [
        f"sequences of {workload.model.sequence_length:,} tokens",
        f"micro-batch {layout.micro_batch:,}",
        f"{found[0].sequences_per_step:,} a step"
        if is_fixed
        else " to ".join(dict.fromkeys((steps[0], steps[-1]))),
        *(phrase.format(degree) for name, phrase in _DEGREES if (degree := getattr(layout, name)) > 1),
        "no sharding" if layout.sharding == "none" else layout.sharding,
        f"{layout.checkpointing} checkpointing of activations" if layout.checkpointing != "none" else "",
        "optimizer offloaded" if layout.offload else "",
        f"{workload.epochs} epochs" if workload.epochs > 1 else "",
    ]
    return ", ".join(word for word in words if word)


def differs_from_article(workload: Workload) -> Iterator[str]:
    """Say that a recipe's run is not the article's, and which settings make it so."""
    from slipway.jobs.estimate.inputs.workloads import workload_of

    runs = ARTICLE_RUNS.get(workload.name, {})
    if not runs:
        return
    for settings in runs.values():
        theirs = workload_of(workload.name, dict(each.split("=", 1) for each in settings.split()))
        if (theirs.model, theirs.layout) == (workload.model, workload.layout):
            return
    text = "; ".join(
        f"{name}: {' '.join(f'--set {each}' for each in settings.split())}" for name, settings in runs.items()
    )
    yield f"this is not the run that the article measured; that is: {text}"
