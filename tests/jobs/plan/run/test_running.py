"""A plan runs to its end despite late jobs, lost nodes and a killed runner at any line."""

from __future__ import annotations

import fcntl
from dataclasses import replace
from pathlib import Path

import pytest

from slipway.jobs.plan.plan_page import plan_page
from slipway.jobs.plan.run import journal
from slipway.jobs.plan.run.journal import (
    AnotherPlan,
    DamagedEvents,
    JobStage,
    Ledger,
    NoPlanJournal,
    PlanIsRunning,
    PlanJournal,
    what_ran,
)
from slipway.jobs.plan.search.list_schedule import as_plan
from slipway.jobs.plan.search.model import Goal, Mode, Pool
from slipway.jobs.plan.search.options import new_problem
from slipway.jobs.report.page import render
from slipway.jobs.words.errors import InvalidConfig
from tests.jobs.plan.run.simulated import Killed, Orchestrated, SimulatedCluster, plan_of
from tests.jobs.plan.search.small import TWO_NODES, best_of_all, job
from tests.jobs.platforms.test_journal import without_locks

JOBS = (
    job("a", (4, 800), (8, 400)),
    job("b", (4, 600), (8, 400)),
    job("c", (4, 300), (8, 200)),
    job("d", (8, 300), after=("c",)),
)


@pytest.fixture
def cluster() -> SimulatedCluster:
    return SimulatedCluster()


@pytest.fixture
def orchestrated(cluster: SimulatedCluster, tmp_path: Path) -> Orchestrated:
    return Orchestrated(plan=plan_of(*JOBS), cluster=cluster, path=tmp_path / "plan.journal")


def stages(ledger: Ledger) -> dict[str, str]:
    return {name: str(standing.stage) for name, standing in ledger.jobs.items()}


def lasted(ledger: Ledger) -> float:
    return max(stint.ended for each in ledger.jobs.values() for stint in each.stints) - ledger.began


def test_a_plan_whose_estimates_are_right_ends_as_planned(orchestrated: Orchestrated) -> None:
    ledger = orchestrated.run()
    assert set(stages(ledger).values()) == {"succeeded"}
    assert [each.attempt for each in ledger.jobs.values()] == [1, 1, 1, 1]
    assert lasted(ledger) <= orchestrated.plan.makespan + 40  # each start waits until the runner looks again


def test_killed_after_any_line_of_the_journal_it_goes_on_and_nothing_runs_twice(tmp_path: Path) -> None:
    whole = Orchestrated(plan=plan_of(*JOBS), cluster=SimulatedCluster(), path=tmp_path / "whole")
    whole.run()
    lines = len(whole.path.read_text().splitlines())
    assert lines > 12
    for writes in range(1, lines):
        killed = Orchestrated(plan=whole.plan, cluster=SimulatedCluster(), path=tmp_path / f"{writes}")
        with pytest.raises(Killed):
            killed.run(writes)
        ledger = killed.run()
        assert set(stages(ledger).values()) == {"succeeded"}, writes
        assert [*killed.cluster.runs] == [*whole.cluster.runs], writes


def test_killed_at_every_line_it_still_ends(orchestrated: Orchestrated) -> None:
    for _ in range(100):
        try:
            ledger = orchestrated.run(writes=1)
            break
        except Killed:
            continue
    assert set(stages(ledger).values()) == {"succeeded"}
    assert len(orchestrated.cluster.runs) == 4


def test_jobs_of_a_lost_node_go_on_on_the_other_with_what_they_saved(orchestrated: Orchestrated) -> None:
    cluster = orchestrated.cluster
    cluster.at[1100] = lambda: cluster.lose(0)
    ledger = orchestrated.run()
    assert set(stages(ledger).values()) == {"succeeded"}
    assert "node 0 of p4d is lost" in " ".join(orchestrated.said)
    again = [each for each in ledger.jobs.values() if each.attempt == 2]
    assert again
    assert all(each.stints[0].outcome == "stopped" for each in again)
    later = [run for name, run in cluster.runs.items() if name.endswith("-2")]
    assert all(run.left < 1 for run in later)
    assert {share.node for run in later for share in run.assignment.placement} == {1}


def test_a_machine_that_breaks_is_told_with_the_next_plan_though_all_jobs_stay_where_they_were(
    tmp_path: Path,
) -> None:
    cluster = SimulatedCluster()
    run = Orchestrated(plan=plan_of(job("a", (8, 800))), cluster=cluster, path=tmp_path / "journal")
    cluster.at[1400] = lambda: cluster.end("a", "lost")
    ledger = run.run()
    assert "planned again, since a was lost" in run.said
    assert (ledger.jobs["a"].attempt, str(ledger.jobs["a"].stage)) == (2, "succeeded")
    assert cluster.runs["a-2"].left < 1


def test_a_job_that_somebody_stops_makes_room_and_those_after_it_never_run(
    orchestrated: Orchestrated,
) -> None:
    orchestrated.cluster.at[1050] = lambda: orchestrated.cluster.end("c", "withdrawn")
    ledger = orchestrated.run()
    assert stages(ledger) == {"a": "succeeded", "b": "succeeded", "c": "withdrawn", "d": "skipped"}
    assert ledger.jobs["d"].why == "c withdrawn"
    assert "c was withdrawn" in orchestrated.said


def test_a_job_that_ends_far_too_early_leaves_its_devices_to_one_that_gains_by_them(tmp_path: Path) -> None:
    jobs = (job("long", (8, 1000)), job("wide", (4, 1600), (8, 800)), job("small", (4, 1500)))
    cluster = SimulatedCluster(factors={"small": 0.1})
    run = Orchestrated(plan=plan_of(*jobs), cluster=cluster, path=tmp_path / "journal")
    ledger = run.run()
    assert set(stages(ledger).values()) == {"succeeded"}
    assert any("wide move" in line for line in run.said)
    assert ledger.jobs["wide"].attempt == 2
    assert [stint.outcome for stint in ledger.jobs["wide"].stints] == ["stopped", "succeeded"]
    assert lasted(ledger) < 1100


def test_a_job_without_a_report_of_progress_is_planned_by_its_time(tmp_path: Path) -> None:
    cluster = SimulatedCluster(reports=False, factors={"a": 1.5})
    run = Orchestrated(plan=plan_of(*JOBS), cluster=cluster, path=tmp_path / "journal")
    ledger = run.run()
    assert set(stages(ledger).values()) == {"succeeded"}
    assert round(ledger.jobs["a"].ratios["p4d"], 1) == 1.5


def test_a_job_that_is_as_late_on_either_type_moves_no_more_than_once(tmp_path: Path) -> None:
    other = Pool(type="p5", nodes=1, devices_per_node=4, price_per_hour=36.0)
    slower = Mode(technique="ddp", type="p5", devices=4, seconds=1010)
    both = replace(job("a", (8, 1000)), modes=(*job("a", (8, 1000)).modes, slower))
    problem = new_problem([both], [TWO_NODES, other], Goal())
    cluster = SimulatedCluster(factors={"a": 3.0})
    run = Orchestrated(plan=as_plan(problem, best_of_all(problem)), cluster=cluster, path=tmp_path / "j")
    ledger = run.run()
    assert str(ledger.jobs["a"].stage) == "succeeded"
    assert [stint.assignment.mode.type for stint in ledger.jobs["a"].stints] == ["p4d", "p5"]


def test_only_one_process_runs_a_plan(orchestrated: Orchestrated) -> None:
    with PlanJournal(orchestrated.path).opened(), pytest.raises(PlanIsRunning):
        orchestrated.run()


def test_a_plan_beside_which_no_lock_can_be_held_does_not_run(
    orchestrated: Orchestrated, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fcntl, "flock", without_locks)
    with pytest.raises(NoPlanJournal, match="Function not implemented"):
        orchestrated.run()


def test_a_line_that_a_crash_cut_short_never_happened_and_another_damage_is_told(
    orchestrated: Orchestrated,
) -> None:
    orchestrated.run()
    lines = orchestrated.path.read_text().splitlines(keepends=True)
    orchestrated.path.write_text("".join(lines[:-1]) + lines[-1][:20])
    assert orchestrated.run().jobs["d"].stage is JobStage.SUCCEEDED
    orchestrated.path.write_text("".join([lines[0], "{}\n", *lines[1:]]))
    with pytest.raises(DamagedEvents, match=r"plan\.journal:2 is no line"):
        orchestrated.run()


def test_a_journal_that_is_too_long_to_read_is_refused_and_nothing_is_cut_from_it(
    orchestrated: Orchestrated, monkeypatch: pytest.MonkeyPatch
) -> None:
    orchestrated.run()
    whole = orchestrated.path.read_bytes()
    monkeypatch.setattr(journal, "_MOST_BYTES", len(whole) - 1)
    with pytest.raises(NoPlanJournal, match="at most 0 are read"):
        orchestrated.run()
    assert orchestrated.path.read_bytes() == whole


def test_a_job_written_into_the_plan_later_runs_with_the_others(orchestrated: Orchestrated) -> None:
    with pytest.raises(Killed):
        orchestrated.run(writes=8)
    orchestrated.plan = replace(orchestrated.plan, jobs=(*JOBS, job("late", (8, 100))))
    ledger = orchestrated.run()
    assert set(stages(ledger).values()) == {"succeeded"}
    assert "late was added" in " ".join(orchestrated.said)


def test_the_journal_of_another_plan_is_refused(orchestrated: Orchestrated) -> None:
    orchestrated.run()
    orchestrated.plan = plan_of(job("other", (8, 100)))
    with pytest.raises(AnotherPlan, match="a job 'a' that the plan has not"):
        orchestrated.run()


def test_what_ran_can_be_drawn_beside_the_plan(orchestrated: Orchestrated) -> None:
    ledger = orchestrated.run()
    ran = [*what_ran(ledger, orchestrated.cluster.time)]
    assert {each.job for each in ran} == {"a", "b", "c", "d"}
    assert max(each.end for each in ran) == lasted(ledger)
    page = render(plan_page(orchestrated.plan, ran))
    assert "What ran: 4 jobs" in page


def test_a_cluster_that_takes_no_job_for_a_while_is_asked_again_and_told_once(
    orchestrated: Orchestrated,
) -> None:
    orchestrated.cluster.busy_until = 1100
    ledger = orchestrated.run()
    assert set(stages(ledger).values()) == {"succeeded"}
    told = [line for line in orchestrated.said if "is tried again: somebody else's job runs" in line]
    assert len(told) == len(set(told)) > 0


def test_what_no_second_try_mends_ends_the_run_and_is_tried_when_it_is_run_again(
    orchestrated: Orchestrated,
) -> None:
    orchestrated.cluster.mistake = True
    with pytest.raises(InvalidConfig):
        orchestrated.run()
    orchestrated.cluster.mistake = False
    assert set(stages(orchestrated.run()).values()) == {"succeeded"}
