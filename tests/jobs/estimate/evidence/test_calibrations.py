"""Calibration data names its sources, gives each estimate the right row, and refuses wrong rows."""

from __future__ import annotations

from dataclasses import replace

import pytest

from slipway.jobs.estimate import CannotEstimate, Layout, throughput
from slipway.jobs.estimate.evidence import nearest
from slipway.jobs.estimate.evidence.calibrations import Asked, find_calibration, fit_measurement, merged
from slipway.jobs.estimate.evidence.measurements import (
    Measurement,
    decode_measurements,
    encode_measurements,
    our_measurements,
    unfitted,
)
from slipway.jobs.estimate.evidence.nearest import other_rows
from slipway.jobs.estimate.evidence.published import calibrate, efficiency_of, rate_of
from slipway.jobs.estimate.evidence.tables import TABLES
from slipway.jobs.estimate.hardware import NETWORKS, cluster_of
from slipway.jobs.estimate.work.models import MODELS
from slipway.jobs.estimate.work.workloads import at_length, find_workload
from slipway.jobs.words.catalogue.instances import instance_type

OURS = our_measurements()


def asked(
    instance: str = "dl1.24xlarge", model: str = "bert-large", nodes: int = 1, layout: Layout | None = None
) -> Asked:
    return Asked(
        instance=instance,
        model_name=model,
        model=MODELS[model],
        cluster=cluster_of(instance_type(instance), nodes),
        layout=layout or TABLES["dl1/bert-large"].layout,
    )


def run_of(nodes: int, rate: float, **changed: object) -> Measurement:
    row = replace(OURS[0], name="my-run", nodes=nodes, sequences_per_second=rate, source="slipway calibrate")
    return replace(row, utilisation=None, network_efficiency=None, **changed)  # type: ignore[arg-type]


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_every_published_row_stands_in_the_file_with_the_numbers_that_it_gives(table: object) -> None:
    table = TABLES[getattr(table, "name")]  # noqa: B009 - narrows the type
    rows = [row for row in OURS if row.name == table.name]
    assert [row.nodes for row in rows] == [row.nodes for row in table.rows]
    assert [row.source for row in rows] == [table.source] * len(rows)
    for row, published in zip(rows, table.rows, strict=True):
        assert row.sequences_per_second == pytest.approx(rate_of(table, published), rel=1e-6)
        assert row.peak_tflops * 1e12 == pytest.approx(table.cluster(row.nodes).peak_flops)
    expected = calibrate(table)
    assert rows[0].utilisation == pytest.approx(expected.utilisation, rel=1e-6)
    assert rows[0].network_efficiency == pytest.approx(expected.network_efficiency, rel=1e-6)
    assert all(row.utilisation is None for row in rows[1:])


def test_the_prior_of_a_class_is_rounded_from_its_tables() -> None:
    for table, network in (("dl1/bert-1.5b", "dl1"), ("trn1/pythia-6.9b", "trn1"), ("c6i/qqp", "cpu")):
        assert efficiency_of(TABLES[table]) == pytest.approx(NETWORKS[network], abs=0.02)


def test_what_was_measured_so_is_called_measured_and_brings_its_row() -> None:
    known = find_calibration(OURS, asked(nodes=8))
    assert (known.word, known.predicted_word) == ("measured", "calibrated")
    assert known.measured is not None
    assert known.measured.sequences_per_second == 9977.54


@pytest.mark.parametrize(
    "changed",
    [
        asked(nodes=16),
        asked(nodes=8, layout=replace(TABLES["dl1/bert-large"].layout, micro_batch=32)),
        asked(nodes=8, layout=replace(TABLES["dl1/bert-large"].layout, sharding="zero1")),
        asked(nodes=8, layout=replace(TABLES["dl1/bert-large"].layout, global_batch=32768)),
    ],
    ids=["more nodes", "another micro-batch", "sharded", "another batch"],
)
def test_the_same_model_on_the_same_family_otherwise_is_calibrated(changed: Asked) -> None:
    known = find_calibration(OURS, changed)
    assert (known.word, known.measured) == ("calibrated", None)
    assert known.calibration.utilisation == pytest.approx(OURS[0].utilisation)


def test_another_model_of_the_family_predicts_by_the_one_that_is_most_like_it() -> None:
    layout = Layout(micro_batch=1)
    known = find_calibration(OURS, asked(instance="trn1.32xlarge", model="gpt-j-6b", layout=layout))
    assert known.word == "predicted"
    assert "pythia-6.9b" in known.basis


def test_an_instance_that_nobody_measured_stands_on_other_people_s_rows_of_its_accelerator() -> None:
    """BERT-Large on eight A100: NVIDIA published 4,553 sequences a second; 4,591 in a second table."""
    own = asked(instance="p4d.24xlarge")
    known = find_calibration(OURS, own)
    assert known.word == "calibrated"
    assert "dgx-a100" in known.basis
    made = throughput(own.model, own.cluster, own.layout, known.calibration)
    assert made.sequences_per_second == pytest.approx(4553, rel=0.05)
    low, high = made.interval
    assert low < 4553 < high < 2 * low


def test_an_accelerator_that_nobody_measured_is_left_to_a_guess_with_a_wide_range() -> None:
    own = asked(instance="p6-b200.48xlarge")
    known = find_calibration(OURS, own)
    low, high = throughput(own.model, own.cluster, own.layout, known.calibration).interval
    assert high > 5 * low
    assert known.word == "predicted"
    assert known.calibration.utilisation is None
    assert "prior" in known.basis


def test_a_utilisation_follows_the_peak_that_it_was_divided_by() -> None:
    """If somebody corrects the catalogue's peak, the predicted rate stays what was measured."""
    own = asked(nodes=16)
    corrected = replace(own, cluster=replace(own.cluster, peak_flops=own.cluster.peak_flops * 2))
    before = throughput(own.model, own.cluster, own.layout, find_calibration(OURS, own).calibration)
    after = throughput(
        own.model, corrected.cluster, own.layout, find_calibration(OURS, corrected).calibration
    )
    assert after.sequences_per_second == pytest.approx(before.sequences_per_second, rel=1e-6)


@pytest.mark.parametrize(
    ("size", "share"), [("c6i.32xlarge", 2.0), ("c6i.8xlarge", 0.5), ("c6i.xlarge", 1 / 16)]
)
def test_another_size_of_a_measured_type_reaches_its_share_of_that_rate(size: str, share: float) -> None:
    layout = TABLES["c6i/mrpc"].layout

    def rate(instance: str) -> float:
        of = asked(instance, "bert-base-cased", layout=layout)
        known = find_calibration(OURS, of)
        return throughput(of.model, of.cluster, layout, known.calibration).sequences_per_second

    assert rate(size) == pytest.approx(share * rate("c6i.16xlarge"), rel=0.1)


def test_the_user_s_own_measurement_takes_the_place_of_ours_for_that_model_only() -> None:
    mine = fit_measurement(run_of(1, 1000.0), asked(), (), OURS)
    rows = merged(OURS, [mine])
    known = find_calibration(rows, asked(nodes=16))
    assert known.calibration.utilisation == pytest.approx(mine.utilisation)
    assert known.word == "calibrated"
    assert find_calibration(rows, asked(nodes=8)).measured is None  # our own row is gone
    other = asked(model="bert-1.5b", nodes=1, layout=TABLES["dl1/bert-1.5b"].layout)
    assert find_calibration(rows, other) == find_calibration(OURS, other)


def test_a_run_is_met_exactly_by_what_it_calibrates() -> None:
    own = asked(nodes=4)
    mine = fit_measurement(run_of(4, 4000.0), own, (), OURS)
    found = find_calibration(merged(OURS, [mine]), own).calibration
    rate = throughput(own.model, own.cluster, own.layout, found).sequences_per_second
    assert rate == pytest.approx(4000.0, rel=1e-6)


def test_a_run_that_only_a_perfect_network_explains_is_met_by_what_it_calibrates() -> None:
    """Its utilisation alone, with the class's network, would predict a slower run than the measured one."""
    of = asked(model="bert-1.5b", nodes=8, layout=TABLES["dl1/bert-1.5b"].layout)
    row = fit_measurement(run_of(8, 5000.0, model="bert-1.5b"), of, (), ())
    known = find_calibration((row,), of, ())
    met = throughput(of.model, of.cluster, of.layout, known.calibration).sequences_per_second
    assert row.network_efficiency == 1.0
    assert met == pytest.approx(5000.0, rel=0.01)


def test_a_run_that_recomputed_its_layers_is_no_measurement_of_one_that_did_not() -> None:
    of = asked(layout=replace(TABLES["dl1/bert-large"].layout, checkpointing="full"))
    row = fit_measurement(run_of(1, 1000.0, checkpointing="full"), of, (), ())
    assert find_calibration((row,), of, ()).word == "measured"
    assert find_calibration((row,), asked(), ()).word == "calibrated"


@pytest.mark.parametrize("name", ["fused", "sequence_parallel"])
def test_a_run_keeps_what_its_layout_did_beside_its_configuration(name: str) -> None:
    usual = TABLES["dl1/bert-large"].layout
    changed = replace(usual, **{name: not getattr(usual, name)})  # type: ignore[arg-type]  # both are truths
    other = asked(layout=changed)
    row = unfitted(other, name="my-run", sequences_per_second=1000.0, date="2026-11-26", source="x run-1")
    assert row == decode_measurements(encode_measurements([row]), "mine.csv")[0]
    assert find_calibration((row,), other, ()).word == "measured"
    assert find_calibration((row,), asked(), ()).word != "measured"
    with pytest.raises(CannotEstimate, match=f"{name} is 'maybe'; allowed are yes and no"):
        replace(row, **{name: "maybe"})  # type: ignore[arg-type]  # both are texts


def test_rows_that_are_about_as_near_count_together_and_are_told() -> None:
    of = asked("p4d.24xlarge", "gpt-neox-20b", nodes=16, layout=Layout(micro_batch=2, sharding="fsdp"))
    assert "rows about as near" in find_calibration(OURS, of).basis


def test_an_accelerator_whose_prior_is_a_guess_is_told_with_a_guess_s_range() -> None:
    """Gaudi 2 and Trainium 2 have rows in the table of priors, but nobody's measurement."""
    layout = Layout(micro_batch=8)
    gaudi = replace(cluster_of(instance_type("dl1.24xlarge"), 1), accelerator="gaudi2", peak_flops=432e12)
    unknown = replace(gaudi, accelerator="nobody's")
    trainium = cluster_of(instance_type("trn2.48xlarge"), 1)
    assert trainium.accelerator == "trainium2"
    told = [throughput(MODELS["bert-large"], each, layout).spread for each in (gaudi, trainium, unknown)]
    assert told[0] == told[1] == told[2]


def test_a_larger_run_gives_the_network_s_efficiency_once_a_smaller_one_gave_utilisation() -> None:
    small = fit_measurement(run_of(1, 1300.0), asked(), (), OURS)
    large = fit_measurement(run_of(8, 9000.0), asked(nodes=8), [small], OURS)
    assert large.utilisation is None
    assert large.network_efficiency is not None
    found = find_calibration([small, large], asked(nodes=8)).calibration
    own = asked(nodes=8)
    rate = throughput(own.model, own.cluster, own.layout, found).sequences_per_second
    assert rate == pytest.approx(9000.0, rel=1e-6)


def test_what_is_written_is_read_again() -> None:
    assert decode_measurements(encode_measurements(OURS), "copy") == OURS


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("utilisation", "1.3", "line 2: utilisation is 1.3; it must be more than 0 and at most 1.25"),
        ("utilisation", "high", "line 2: utilisation is 'high', which is no number"),
        ("network_efficiency", "0", "line 2: network_efficiency is 0.0"),
        ("nodes", "0", "line 2: nodes is 0; it must be more than 0"),
        ("nodes", "1.5", "line 2: nodes is '1.5', which is no whole number"),
        ("sequences_per_second", "nan", "line 2: sequences_per_second is nan"),
        ("peak_tflops", "-1", "line 2: peak_tflops is -1"),
    ],
)
def test_a_row_that_cannot_be_is_refused_with_its_file_and_line(
    column: str, value: str, message: str
) -> None:
    lines = encode_measurements(OURS[:1]).splitlines()
    cells = dict(zip(lines[0].split(","), lines[1].split(","), strict=False)) | {column: value}
    text = f"{lines[0]}\n{','.join(cells[name] for name in lines[0].split(','))}\n"
    with pytest.raises(CannotEstimate, match=r"mine\.csv") as refused:
        decode_measurements(text, "mine.csv")
    assert message in refused.value.message


def test_a_file_of_something_else_is_refused() -> None:
    with pytest.raises(CannotEstimate, match="lacks the column name, instance"):
        decode_measurements("a,b\n1,2\n", "mine.csv")


def test_another_sequence_length_is_another_model_to_a_calibration() -> None:
    longer = at_length(find_workload("bert-large"), 256)
    own = replace(asked(nodes=2), model_name=longer.model_name, model=longer.model)
    assert find_calibration(OURS, own).word == "predicted"
    same = at_length(find_workload("bert-large"), 128)
    assert find_calibration(OURS, replace(own, model_name=same.model_name, model=same.model)).measured


def test_an_estimate_decodes_the_published_rows_of_its_own_accelerator_alone() -> None:
    """Reading all rows takes half of an estimate's time."""
    shipped = nearest._lines_by_accelerator()
    assert sum(map(len, shipped.values())) == len(other_rows())
    for accelerator, lines in shipped.items():
        (found,) = nearest._shipped(accelerator).values()
        assert [row for row, _ in found] == [
            row for row in other_rows() if nearest._accelerator(row.asked.cluster) == accelerator
        ]
        assert len(found) == len(lines)
