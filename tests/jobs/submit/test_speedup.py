"""The table of speedups compares the right runs, and says what it does not know."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from slipway.jobs.estimate.evidence.measurements import our_measurements
from slipway.jobs.estimate.inputs.places import alone
from slipway.jobs.estimate.inputs.workloads import recipe_workload
from slipway.jobs.submit.logs import LogLine
from slipway.jobs.submit.speedup import (
    IDEAL,
    MEASURED,
    PLOT_COLUMNS,
    NothingToCompare,
    chosen,
    compare,
    estimated_speedups,
    plot,
    published_speedups,
    sample,
    submit_line,
)
from slipway.jobs.words.catalogue.instances import instance_type
from slipway.jobs.words.run import AnyFound, Found, JobState, Run, cost
from tests.jobs.conftest import Slipway
from tests.jobs.words.test_targets import MPI_TARGET

SECONDS = {1: 466.0, 2: 300.0, 4: 200.0}
RATES = {1: 25.0, 2: 42.5, 4: 75.0}


@pytest.fixture(autouse=True)
def nothing_of_my_own(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("config")))
    monkeypatch.delenv("SLIPWAY_CALIBRATION", raising=False)
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)


def ran(
    nodes: int, *, settings: tuple[str, ...] = ("task=mrpc",), number: int = 0, **changes: object
) -> AnyFound:
    run = Run(
        id=f"id-{nodes}-{number}",
        name=f"glue-{nodes}-{number}",
        target="c6i",
        region="us-east-1",
        state=JobState.SUCCEEDED,
        status="Success",
        reason=None,
        recipe="glue_finetune",
        nodes=nodes,
        instance_type="c6i.16xlarge",
        created_at=datetime(2026, 11, 21, tzinfo=UTC) + timedelta(hours=number),
        started_at=None,
        stopped_at=None,
        attempts=(),
        exit_code=0,
        image=None,
        image_digest=None,
        hours=SECONDS[nodes] / 3600,
        cost=cost(nodes, SECONDS[nodes], None),
        depends_on=(),
    )
    words = [word for pair in settings for word in ("--set", pair)]
    detail = {"RecipeArguments": words}
    return Found(run=replace(run, **changes), target=MPI_TARGET, detail=detail)  # type: ignore[arg-type]


def lines(nodes: int, steps: int = 60) -> list[str]:
    rates = {step: 1.0 if step <= 10 else RATES[nodes] for step in range(10, steps + 1, 10)}
    told = "loss 0.6  lr 2e-05  |g| 1"
    return [f"[0] step {step}/{steps}  {told}  {rate:,.1f} sequences/s" for step, rate in rates.items()]


def test_the_newest_run_of_each_size_with_the_same_settings_counts() -> None:
    newest_first = [
        ran(4, settings=("task=qqp",), number=9),
        ran(2, number=5),
        ran(4, number=4, state=JobState.FAILED),
        ran(2, number=3),
        ran(1, number=2),
        ran(1, number=1, recipe="bert_pretrain"),
    ]
    settings, found = chosen(newest_first, "glue_finetune", {}, "c6i")
    assert settings == {"task": "mrpc"}
    assert [each.run.name for each in found] == ["glue-1-2", "glue-2-5"]
    newest_first = [ran(2, number=4), ran(1, number=3), ran(1, settings=("task=qqp",), number=2)]
    settings, found = chosen(newest_first, "glue_finetune", {"task": "qqp"}, "c6i")
    assert (settings, [each.run.name for each in found]) == ({"task": "qqp"}, ["glue-1-2"])


def test_without_a_run_on_one_node_the_command_that_makes_one_is_told() -> None:
    with pytest.raises(NothingToCompare) as caught:
        chosen([ran(2, settings=("task=mrpc", "model=my model"))], "glue_finetune", {}, "c6i")
    assert "no run of glue_finetune on one node of 'c6i' has succeeded" in caught.value.message
    assert caught.value.hint == (
        "submit it: slipway submit glue_finetune --on c6i --nodes 1 --set 'model=my model' --set task=mrpc"
    )
    assert submit_line("glue_finetune", "c6i", 1, {"model": "$(x)"}).endswith("--set 'model=$(x)'")


def test_speed_up_is_of_examples_a_second_after_the_warm_up() -> None:
    samples = [sample(ran(nodes), lines(nodes)) for nodes in (1, 2, 4)]
    table = compare(samples, {2: 1.67}, {4: 3.1})
    assert [(row.nodes, round(row.speedup, 2), round(row.efficiency, 3)) for row in table] == [
        (1, 1.0, 1.0),
        (2, 1.7, 0.85),
        (4, 3.0, 0.75),
    ]
    assert [round(row.seconds or 0) for row in table] == [466, 300, 200]
    assert [row.published for row in table] == [None, 1.67, None]
    assert not any(row.is_short for row in table)


def test_a_run_that_ended_within_its_warm_up_is_compared_and_said_to_be_short() -> None:
    short = sample(ran(1), lines(1, steps=10))
    assert short.examples_per_second == 1.0
    assert compare([short], {}, {})[0].is_short
    with pytest.raises(NothingToCompare, match="has reported no step"):
        sample(ran(1), ["[0] no step"])


@pytest.mark.parametrize(("task", "two", "four"), [("mrpc", 1.67, 2.99), ("qqp", 1.71, 2.95)])
def test_the_article_s_speed_ups_stand_beside_its_tasks(task: str, two: float, four: float) -> None:
    workload = recipe_workload("glue_finetune", {"task": task})
    source, published = published_speedups(workload, "c6i.32xlarge")
    assert "distributed fine-tuning on Intel" in source
    assert {nodes: round(times, 2) for nodes, times in published.items()} == {1: 1.0, 2: two, 4: four}


def test_the_estimate_is_of_these_machines_and_grows_with_them() -> None:
    workload = recipe_workload("glue_finetune", {"task": "mrpc"})
    place = alone(instance_type("c6i.16xlarge"), (), region=None, term="on-demand")
    found = estimated_speedups(workload, place, [2, 4], our_measurements())
    assert found[1] == 1.0
    assert 1.2 < found[2] < 2.0 < found[4] < 4.0


def test_a_plot_has_the_measured_as_a_bar_and_the_ideal_as_a_mark() -> None:
    half = plot(speedup=2.0, nodes=4, estimated=None, most=4)
    assert half == MEASURED * (PLOT_COLUMNS // 2) + " " * (PLOT_COLUMNS - PLOT_COLUMNS // 2) + IDEAL
    assert len(plot(speedup=9.0, nodes=4, estimated=9.0, most=4)) == PLOT_COLUMNS + 1


@pytest.fixture
def finished(monkeypatch: pytest.MonkeyPatch) -> list[AnyFound]:
    """Answer as a platform would; tests/end_to_end has real ones."""
    runs = [ran(4, number=3), ran(2, number=2), ran(1, number=1)]

    def told(found: AnyFound, *_: object, **__: object) -> Iterator[LogLine]:
        for text in lines(found.run.nodes or 0):
            yield LogLine(time=datetime.now(UTC), node=0, rank=0, text=text)

    monkeypatch.setattr("slipway.jobs.submit.find.targets_to_search", lambda *_: [MPI_TARGET])
    monkeypatch.setattr("slipway.jobs.submit.find.list_runs", lambda _: [run.run for run in runs])
    monkeypatch.setattr(
        "slipway.jobs.submit.find.find_run",
        lambda name, _: next(run for run in runs if name in (run.run.id, run.run.name)),
    )
    monkeypatch.setattr("slipway.jobs.submit.logs.follow_lines", told)
    return runs


def test_the_command_prints_a_row_a_size_and_what_it_rests_on(
    slipway: Slipway, finished: list[AnyFound]
) -> None:
    code, out, err = slipway("report", "speedup", "glue_finetune", "--on", "c6i")
    assert code == 0, err
    title, _, *rows = out.splitlines()
    assert title == "glue_finetune on c6i, c6i.16xlarge"
    assert [row.split()[:6] for row in rows] == [
        ["1", "466", "25.0", "1.00", "×", "100.0"],
        ["2", "300", "42.5", "1.70", "×", "85.0"],
        ["4", "200", "75.0", "3.00", "×", "75.0"],
    ]
    assert "1.67 ×" in rows[1]
    assert "2.99 ×" in rows[2]
    assert "published: Hugging Face blog" in err
    assert "mean nothing" not in err


def test_named_jobs_are_compared_and_json_has_every_field(slipway: Slipway, finished: list[AnyFound]) -> None:
    code, out, err = slipway("report", "speedup", "glue-4-3", "glue-1-1", "--json")
    assert code == 0, err
    assert [(row["nodes"], row["job"], row["speedup"]) for row in json.loads(out)] == [
        (1, "glue-1-1", 1.0),
        (4, "glue-4-3", 3.0),
    ]
    assert "for another size: slipway submit glue_finetune --on c6i --nodes 2 --set task=mrpc" in err
    err = slipway.told("report", "speedup", "glue-4-3", "glue-2-2", code=1)
    assert "none of these jobs ran on one node" in err


def test_in_the_yard_the_table_says_that_its_speed_ups_mean_nothing(
    slipway: Slipway, finished: list[AnyFound], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("slipway.jobs.cloud.aws.is_in_yard", lambda: True)
    err = slipway.told("report", "speedup", "glue_finetune", "--on", "c6i")
    assert "share this machine's" in err
    assert "speed-ups measured here mean nothing" in err
    err = slipway.told("report", "speedup", "glue_finetune", code=2)
    assert "slipway report speedup RECIPE --on CLUSTER" in err
