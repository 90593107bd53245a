"""Rates keep their promises to a user of the estimate, for all shapes."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import slipway.jobs.estimate
from slipway.jobs.estimate import (
    Calibration,
    CannotEstimate,
    Hardware,
    Layout,
    Model,
    fit_network_efficiency,
    fit_utilisation,
    throughput,
)
from slipway.jobs.estimate.evidence.nearest import other_rows
from slipway.jobs.estimate.evidence.published_rows import Published
from slipway.jobs.estimate.work.models import MODELS
from slipway.jobs.estimate.work.shapes import SHARDINGS

ROOT = Path(__file__).parents[4]
DECODER = MODELS["pythia-6.9b"]
NODE = Hardware(
    nodes=1,
    devices_per_node=8,
    peak_flops=312e12,
    memory_bytes=80e9,
    intra_node_bytes_per_second=300e9,
    inter_node_bytes_per_second=50e9,
)

nodes = st.integers(1, 512)
shardings = st.sampled_from(SHARDINGS)
splits = st.sampled_from([(1, 1), (2, 1), (8, 1), (1, 2), (4, 2), (8, 4)])


def test_copies_of_shards_inside_one_node_need_no_network() -> None:
    layout = Layout(micro_batch=1, sharding="hybrid", hybrid_group=4)
    alone = throughput(DECODER, replace(NODE, inter_node_bytes_per_second=0.0), layout)
    assert alone == throughput(DECODER, NODE, layout)


def test_the_call_that_the_module_shows_runs_as_it_stands() -> None:
    """Sixty-four Gaudi from eight: the article measured 9977.54 sequences a second."""
    *lines, call = str(slipway.jobs.estimate.__doc__).partition("\n\n")[2].strip().splitlines()
    script = "\n".join([*lines, f"print({call})"])
    told = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert float(told.stdout) == pytest.approx(9977.54, rel=0.04)


@given(nodes, nodes, shardings, splits)
def test_more_nodes_never_lower_the_total_on_an_ideal_network(
    few: int, more: int, sharding: str, split: tuple[int, int]
) -> None:
    assume(few < more)
    tensor, pipeline = split
    assume(pipeline == 1 or sharding not in ("zero2", "zero3"))
    ideal = replace(NODE, inter_node_bytes_per_second=1e20, latency_seconds=0.0)
    layout = Layout(micro_batch=1, accumulation_steps=4, tensor=tensor, pipeline=pipeline, sharding=sharding)
    assume(few * 8 % (tensor * pipeline) == 0)
    assume(more * 8 % (tensor * pipeline) == 0)
    small = throughput(DECODER, replace(ideal, nodes=few), layout)
    large = throughput(DECODER, replace(ideal, nodes=more), layout)
    assert large.sequences_per_second >= small.sequences_per_second


@given(nodes, shardings, st.floats(0.01, 1.0))
def test_efficiency_is_never_above_that_of_the_calibrated_row(
    many: int, sharding: str, efficiency: float
) -> None:
    layout = Layout(micro_batch=2, accumulation_steps=8, sharding=sharding)
    own = fit_utilisation(DECODER, NODE, layout, sequences_per_second=5.0, network_efficiency=efficiency)
    grown = throughput(DECODER, replace(NODE, nodes=many), layout, own)
    assert grown.sequences_per_second / many <= 5.0 * (1 + 1e-9)


@given(nodes, shardings, splits, st.floats(0.05, 0.9))
def test_the_row_that_gave_utilisation_is_met_exactly(
    many: int, sharding: str, split: tuple[int, int], utilisation: float
) -> None:
    tensor, pipeline = split
    assume(pipeline == 1 or sharding not in ("zero2", "zero3"))
    assume(many * 8 % (tensor * pipeline) == 0)
    cluster = replace(NODE, nodes=many)
    layout = Layout(micro_batch=1, accumulation_steps=8, tensor=tensor, pipeline=pipeline, sharding=sharding)
    rate = throughput(DECODER, cluster, layout, Calibration(utilisation=utilisation)).sequences_per_second
    fitted = fit_utilisation(DECODER, cluster, layout, sequences_per_second=rate)
    assert fitted.utilisation == pytest.approx(utilisation, rel=1e-6)


@pytest.mark.parametrize("sharding", ["zero2", "zero3"])
def test_a_split_that_deepspeed_does_not_run_is_refused(sharding: str) -> None:
    """BI-063."""
    layout = Layout(micro_batch=1, pipeline=2, sharding=sharding)
    with pytest.raises(CannotEstimate, match="DeepSpeed runs no pipeline with ZeRO 2 or 3"):
        throughput(DECODER, NODE, layout)


def test_network_efficiency_is_found_again_from_the_row_it_made() -> None:
    cluster, layout = replace(NODE, nodes=8), Layout(micro_batch=1, sharding="zero1")
    known = Calibration(utilisation=0.4, network_efficiency=0.33)
    rate = throughput(DECODER, cluster, layout, known).sequences_per_second
    fitted = fit_network_efficiency(DECODER, cluster, layout, sequences_per_second=rate, utilisation=0.4)
    assert fitted.network_efficiency == pytest.approx(0.33, rel=1e-6)


def test_a_rate_beyond_the_peak_is_refused_with_the_peak_s_own_rate() -> None:
    with pytest.raises(CannotEstimate, match="more than these devices can compute") as refused:
        fit_utilisation(DECODER, NODE, Layout(micro_batch=1), sequences_per_second=1e6)
    assert "not tokens" in refused.value.hint


@pytest.mark.parametrize("rate", [0.0, -1.0, float("nan"), float("inf")])
def test_a_rate_that_is_none_is_refused_with_its_value(rate: float) -> None:
    with pytest.raises(CannotEstimate, match=f"sequences_per_second is {rate!r}"):
        fit_utilisation(DECODER, NODE, Layout(micro_batch=1), sequences_per_second=rate)


@pytest.mark.parametrize(("length", "micro_batch", "rate"), [(128, 64, 387.0), (512, 8, 149.6)])
def test_what_eight_v100_did_in_32_bit_is_never_called_impossible(
    length: int, micro_batch: int, rate: float
) -> None:
    """BERT-Large, NVIDIA's table: narrow layers, and at 512 tokens more than the printed peak."""
    node = replace(
        NODE, peak_flops=15.7e12, intra_node_bytes_per_second=150e9, network="infiniband", accelerator=""
    )
    model = replace(MODELS["bert-large"], sequence_length=length)
    layout = Layout(micro_batch=micro_batch, accumulation_steps=128, gradient_bytes=4)
    known = fit_utilisation(model, node, layout, sequences_per_second=rate)
    assert throughput(model, node, layout, known).sequences_per_second == pytest.approx(rate)


@pytest.mark.parametrize("name", ["context", "expert"])
def test_a_parallelism_that_nobody_measured_is_refused_by_name(name: str) -> None:
    with pytest.raises(CannotEstimate, match=f"{name} is 2: {name} parallelism is not estimated"):
        Layout(micro_batch=1, **{name: 2})  # type: ignore[arg-type]


def test_data_parallelism_hides_less_of_what_it_sends_than_fsdp_does() -> None:
    cluster, model = replace(NODE, nodes=4), MODELS["bert-large"]
    plain = throughput(model, cluster, Layout(micro_batch=8)).step
    ahead = throughput(model, cluster, Layout(micro_batch=8, sharding="fsdp")).step
    assert plain.data / 2 > ahead.data / 3  # sent are gradients twice, or weights twice and gradients once


def test_a_step_of_few_sequences_uses_less_of_a_device() -> None:
    model, node = MODELS["bert-base"], replace(NODE, devices_per_node=1)
    few, many = (throughput(model, node, Layout(micro_batch=size)).mfu for size in (1, 64))
    assert few < many / 2


def test_a_compute_bound_row_gives_no_network_efficiency() -> None:
    layout = Layout(micro_batch=1, accumulation_steps=64)
    own = fit_utilisation(DECODER, NODE, layout, sequences_per_second=10.0)
    assert own.utilisation is not None
    with pytest.raises(CannotEstimate, match="perfect network"):
        fit_network_efficiency(
            DECODER,
            replace(NODE, nodes=2),
            layout,
            sequences_per_second=20.5,
            utilisation=own.utilisation,
        )


def test_what_is_computed_again_costs_time_but_is_no_work_of_the_model() -> None:
    plain = throughput(DECODER, NODE, Layout(micro_batch=1))
    again = throughput(DECODER, NODE, Layout(micro_batch=1, checkpointing="full"))
    assert again.step.compute == pytest.approx(plain.step.compute * 4 / 3, rel=0.03)
    assert again.mfu < plain.mfu


def test_a_pipeline_s_bubble_shrinks_with_micro_batches_and_with_chunks() -> None:
    cluster = replace(NODE, nodes=4)
    few = Layout(micro_batch=1, accumulation_steps=4, tensor=8, pipeline=4)
    many = replace(few, accumulation_steps=32)
    chunked = replace(few, schedule="interleaved", chunks=2)

    def idle(layout: Layout) -> float:
        step = throughput(DECODER, cluster, layout).step
        return step.bubble / step.compute

    assert idle(many) == pytest.approx(idle(few) / 8)
    assert idle(chunked) == pytest.approx(idle(few) / 2)


def test_all_stages_wait_for_the_one_that_holds_most_layers() -> None:
    """Thirty-two layers over three stages: eleven, eleven and ten."""
    cluster = replace(NODE, nodes=3)
    even, odd = Layout(micro_batch=1, pipeline=4), Layout(micro_batch=1, pipeline=3)
    computed = throughput(DECODER, cluster, odd).step.compute * 3
    as_if_even = throughput(DECODER, cluster, even).step.compute * 4
    assert computed == pytest.approx(as_if_even * 33 / 32)


def test_each_part_of_a_tensor_repeats_norms_and_residuals() -> None:
    """Llama 65B on 128 A100 computed at 0.54, 0.41 and 0.30 of the peak with a layer on 2, 4 and 8."""
    computed = [
        throughput(DECODER, replace(NODE, nodes=2), Layout(micro_batch=1, tensor=degree)).step.compute
        * degree
        for degree in (1, 2, 4, 8)
    ]
    assert computed == sorted(computed)
    assert computed[-1] > 1.2 * computed[0]
    trainium = replace(NODE, nodes=2, accelerator="trainium", peak_flops=95e12)
    split = [throughput(DECODER, trainium, Layout(micro_batch=1, tensor=n)).step.compute * n for n in (1, 8)]
    assert split[0] == pytest.approx(split[1], rel=0.02)


def rate(of: Published, **changed: object) -> float:
    """Return the rate that the prior gives for a published row with another layout."""
    layout = replace(of.asked.layout, **changed)  # type: ignore[arg-type]  # fields of a layout
    return throughput(of.asked.model, of.asked.cluster, layout).sequences_per_second


def published_gains(fact: str, table: str) -> list[tuple[float, float]]:
    """Return a layout's gain in pairs of published runs, and the model's answer for each."""
    rows = [row for row in other_rows() if table in row.table]
    with_it = [row for row in rows if getattr(row.asked.layout, fact)]
    found = []
    for row in with_it:
        plain = replace(row.asked, layout=replace(row.asked.layout, **{fact: False}))  # type: ignore[arg-type]  # both are truths
        for other in rows:
            if other.asked == plain:
                gained = row.sequences_per_second / other.sequences_per_second
                found.append((gained, rate(row) / rate(other)))
    return found


def test_sequence_parallelism_gains_what_published_pairs_of_runs_gained() -> None:
    pairs = published_gains("sequence_parallel", "_sequence_parallelism")
    assert len(pairs) > 40
    assert fmean(seen for seen, _ in pairs) > 1.05
    assert fmean(abs(told / seen - 1) for seen, told in pairs) < 0.04
    alone = other_rows()[0]  # nothing is cut, so there is nothing to share
    assert rate(alone, sequence_parallel=True) == rate(alone)


def test_compiled_norms_and_gates_gain_what_torchtitan_measured_with_and_without() -> None:
    pairs = published_gains("fused", "llama3_h100_202412")
    assert len(pairs) == 2
    assert all(1.1 < seen < 1.2 for seen, _ in pairs)
    assert all(abs(told / seen - 1) < 0.12 for seen, told in pairs)


def test_in_fp8_long_sequences_gain_less_as_their_scores_stay_in_16_bit() -> None:
    fast = replace(NODE, peak_flops=1979e12, accelerator="h100-fp8")
    half = replace(NODE, peak_flops=989e12, accelerator="h100")
    short, long = (
        throughput(shape, fast, Layout(micro_batch=1), peak).step.compute
        / throughput(shape, half, Layout(micro_batch=1), peak).step.compute
        for shape in (replace(DECODER, sequence_length=512), replace(DECODER, sequence_length=65_536))
        for peak in [Calibration(utilisation=1.0)]
    )
    assert short < 0.6
    assert long > 0.75  # compared with 16 bit's time; without this it would be half


def test_full_sharding_takes_a_ring_s_time_for_each_layer_however_fast_the_network() -> None:
    """Every further node is one more hop, which no bandwidth shortens."""
    fast = replace(NODE, inter_node_bytes_per_second=1e20)
    sent = [
        throughput(DECODER, replace(fast, nodes=nodes), Layout(micro_batch=1, sharding="zero3")).step.data
        for nodes in (2, 64, 256)
    ]
    assert sent[2] - sent[1] > 2 * (sent[1] - sent[0]) > 0


def test_zero_3_hides_less_of_what_it_sends_than_fsdp_does() -> None:
    cluster = replace(NODE, nodes=8)
    zero, fsdp = (
        throughput(DECODER, cluster, Layout(micro_batch=4, sharding=name)).step.data
        for name in ("zero3", "fsdp")
    )
    assert zero > 1.5 * fsdp


def test_traffic_inside_a_node_is_added_up_before_it_leaves_the_node() -> None:
    """Eight devices on a node send as much as one would, because the ring runs over nodes."""
    slow = replace(NODE, nodes=4, inter_node_bytes_per_second=1e9, latency_seconds=0.0, network="infiniband")
    eight = throughput(DECODER, slow, Layout(micro_batch=1)).step
    one = throughput(
        DECODER, replace(slow, devices_per_node=1, intra_node_bytes_per_second=0.0), Layout(micro_batch=1)
    ).step
    assert eight.data == pytest.approx(one.data, rel=0.01)


@pytest.mark.parametrize(
    ("layout", "message", "hint"),
    [
        (Layout(micro_batch=1, tensor=3), "tensor degree 3 does not divide 32 heads", "2"),
        (Layout(micro_batch=1, pipeline=64), "more than 32 layers", "at most 32"),
        (Layout(micro_batch=1, pipeline=16), "8 devices are not a multiple of 16", "16"),
        (Layout(micro_batch=3, global_batch=100), "not a multiple of the 24 sequences", "96 or 120"),
    ],
)
def test_what_cannot_be_split_is_refused_with_what_can(layout: Layout, message: str, hint: str) -> None:
    with pytest.raises(CannotEstimate, match=message) as refused:
        throughput(DECODER, NODE, layout)
    assert hint in refused.value.hint


@pytest.mark.parametrize("value", [0, -1, 10**9, 1.5, True, float("nan")])
def test_a_number_that_makes_no_sense_is_refused_by_name(value: object) -> None:
    with pytest.raises(CannotEstimate, match="micro_batch is"):
        Layout(micro_batch=value)  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [0.0, -0.1, 1.26, float("nan"), float("inf")])
def test_a_utilisation_that_cannot_be_is_refused(value: float) -> None:
    with pytest.raises(CannotEstimate, match="utilisation is"):
        Calibration(utilisation=value)


def test_a_cluster_of_several_nodes_needs_a_network() -> None:
    with pytest.raises(CannotEstimate, match="inter_node_bytes_per_second is 0"):
        replace(NODE, nodes=2, inter_node_bytes_per_second=0.0)


def test_heads_that_do_not_divide_the_width_are_refused() -> None:
    with pytest.raises(CannotEstimate, match="hidden_size 100 is not a multiple of 16 heads") as refused:
        Model(
            layers=1,
            hidden_size=100,
            heads=16,
            feed_forward=400,
            vocabulary=10,
            sequence_length=8,
            causal=False,
        )
    assert "20 heads" in refused.value.hint
