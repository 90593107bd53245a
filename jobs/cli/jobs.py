"""Follows jobs: `slipway status`, `logs`, `explain` and `cancel`."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict

import click

from slipway.jobs.cli.options import (
    job_argument,
    newest_job_argument,
    only_target_option,
    region_option,
    target_option,
)
from slipway.jobs.cloud import aws
from slipway.jobs.output import (
    Column,
    ask,
    is_terminal,
    json_option,
    print_record,
    print_table,
    print_text,
    say,
    warn,
)
from slipway.jobs.platforms.journal import submitted_here
from slipway.jobs.platforms.platform import machine_warnings, nodes_of, platform_of, waiting_of
from slipway.jobs.submit import find, logs
from slipway.jobs.submit.logs import LogLine, Wanted, find_warning, mark_of, new_words, with_warning
from slipway.jobs.words.errors import SlipwayError
from slipway.jobs.words.run import AnyFound, Run, not_succeeded
from slipway.jobs.words.targets import Target
from slipway.jobs.words.text import dollars, moment, money, printable

STATUS_LISTED = (
    Column(name="name"),
    Column(name="id"),
    Column(name="state"),
    Column(name="target"),
    Column(name="recipe"),
    Column(name="nodes", align="right"),
    Column(name="hours", unit="h", align="right"),
    Column(name="waits_for", absent=""),
    Column(name="reason", absent=""),
)

STATUS_IN_FULL = (
    *STATUS_LISTED,
    Column(name="warning", absent=""),
    Column(name="status", title="AWS's word"),
    Column(name="exit_code", absent=""),
    Column(name="tries", title="attempts that ended"),
    Column(name="created_at", title="created", format=moment),
    Column(name="started_at", title="started", format=moment, absent="not yet"),
    Column(name="stopped_at", title="stopped", format=moment, absent="not yet"),
    Column(name="instance_type"),
    Column(name="image"),
    Column(name="image_digest"),
    Column(name="cost.usd", title="cost so far", unit="USD", format=dollars),
    Column(name="cost.price.term", title="by the price"),
    Column(name="cost.price.date", title="price date"),
)

NODES = (
    Column(name="target"),
    Column(name="name"),
    Column(name="instance_id", title="instance"),
    Column(name="main", title="main node"),
    Column(name="answered", title="ready"),
    Column(name="why", title="why not", absent=""),
)


@click.command()
@newest_job_argument
@only_target_option
@region_option
@click.option("--all", "is_all", is_flag=True, help="List past jobs, too, with their hours and cost.")
@click.option(
    "--nodes", is_flag=True, help="List the nodes that stay between jobs, and why a node is not ready."
)
@json_option
def status_command(
    job: str | None, is_all: bool, nodes: bool, target: str | None, region: str | None, as_json: bool
) -> None:
    """List unfinished jobs, or show JOB (its id or name, or the beginning of either) in full.

    If several jobs match, the newest is used, and a line says which one. With --all, hours and cost cover
    all attempts of a job, at the price of the day shown and for the way that the cluster buys its nodes.
    Prices of Spot and of capacity blocks are approximate, and AWS bills some minutes more, from a machine's
    start to its end. AWS Batch forgets a job a week after its end, Systems Manager after a month. Unknown
    values are shown as unknown.

    \b
    slipway status
    slipway status bert_pretrain --json
    slipway status --all
    slipway status --on c6i --nodes
    """
    if (job is not None) + is_all + nodes > 1:
        raise click.UsageError("JOB, --all and --nodes are three questions; ask one")
    targets = find.targets_to_search(target, region)
    if is_all:
        _print_all(find.list_runs(targets), as_json=as_json)
        return
    if nodes:
        ready = [{"target": one.name, **node} for one in targets for node in _say_nodes(one, in_full=False)]
        print_table("nodes", NODES, ready, as_json=as_json)
        return
    if job is not None:
        found = find.find_newest(job, targets, say)
        waiting = waiting_of(found.target)
        row = _row(found.run, waiting.find_dependencies_of(found.run, found.target) if waiting else [])
        print_record(STATUS_IN_FULL, {**row, "warning": find_warning(found)}, as_json=as_json)
        return
    runs = find.list_unfinished(targets)
    others = {(run.target, run.region, run.id): run for run in find.find_awaited(runs, targets)}
    keys = [[(run.target, run.region, each) for each in run.depends_on] for run in runs]
    rows = [
        _row(run, [others[key] for key in own if key in others]) for run, own in zip(runs, keys, strict=True)
    ]
    print_table("unfinished jobs", STATUS_LISTED, rows, as_json=as_json)
    if strange := [run.name for run in runs if _is_from_elsewhere(run, targets)]:
        names = ", ".join(strange[:_SHOWN]) + (" …" if len(strange) > _SHOWN else "")
        say(f"{len(strange)} of them {_ELSEWHERE}: {names}")
    say("those that have ended: slipway status --all")
    if target is not None:
        _say_nodes(targets[0])


_SHOWN = 5
_ELSEWHERE = "did not come from this machine's slipway"


def _is_from_elsewhere(run: Run, targets: Sequence[Target]) -> bool:
    """Return True for a job of another person, or of another machine of yours."""
    own = (target for target in targets if (target.name, target.region) == (run.target, run.region))
    return not any(submitted_here(target, run.name, aws.endpoint()) for target in own)


def _say_nodes(target: Target, *, in_full: bool = True) -> Sequence[Mapping[str, object]]:
    """Say how many nodes are ready and, in full, why each other node is not; return all nodes."""
    nodes = nodes_of(target)
    if nodes is None:
        return ()
    found = nodes.node_rows(target)
    silent = [each for each in found if not each["answered"]]
    say(f"{target.name}: {len(found) - len(silent)} of at most {target.max_nodes} nodes are ready")
    for each in silent if in_full else ():
        say(f"{each['name']} is not ready: {each['why']}")
    for line in machine_warnings(target):
        warn(line)
    return found


def _row(run: Run, others: Sequence[Run]) -> Mapping[str, object]:
    """Describe a run; `others` are the runs that it depends on."""
    awaited = [] if run.state.is_final else others
    return {**asdict(run), "tries": len(run.attempts), "waits_for": not_succeeded(awaited) or None}


# `slipway status --all`: lists past and present jobs, how long they ran and what they cost.
RUNS_COLUMNS = (
    Column(name="name"),
    Column(name="state"),
    Column(name="target"),
    Column(name="recipe"),
    Column(name="nodes", align="right"),
    Column(name="created_at", title="created", format=moment),
    Column(name="hours", unit="h", align="right"),
    Column(name="cost.node_hours", title="node hours", unit="h", align="right"),
    Column(name="cost.usd", title="cost", unit="USD", align="right", format=dollars),
    Column(name="cost.price.term", title="price"),
    Column(name="cost.price.region", title="price region"),
    Column(name="cost.price.date", title="price date"),
)


def _print_all(runs: Sequence[Run], *, as_json: bool) -> None:
    print_table("runs, newest first", RUNS_COLUMNS, [asdict(run) for run in runs], as_json=as_json)
    known = [run.cost.usd for run in runs if run.cost.usd is not None]
    if runs:
        unknown = f"; {len(runs) - len(known)} more of unknown cost" if len(known) < len(runs) else ""
        say(f"{len(known)} runs for {money(sum(known))} USD{unknown}")


# `slipway logs`: prints what the ranks of a job print, while it runs or afterwards.


@click.command()
@newest_job_argument
@click.option("--rank", default="all", show_default=True, help="Rank to print: a number, or all.")
@click.option("--node", default="all", show_default=True, help="Node to print: a number, or all.")
@click.option(
    "-f", "--follow", is_flag=True, help="Keep printing until the job ends; fail if the job failed."
)
@target_option
@region_option
@click.option("--json", "as_json", is_flag=True, help="Print each line as one JSON object.")
def logs_command(
    job: str | None, rank: str, node: str, follow: bool, target: str | None, region: str | None, as_json: bool
) -> None:
    """Print the logs of JOB (its id or name, or the beginning of either) from all its nodes.

    If several jobs match, or without JOB, the newest is used, and a line says which one. Lines of a rank
    start with the rank in brackets; lines of a node's launcher start with the node.

    \b
    slipway logs bert_pretrain --rank 0 --follow
    slipway logs bert_pretrain --node 1 --json
    """
    wanted = Wanted(node=_number("--node", node), rank=_number("--rank", rank))
    found = find.find_newest(job, find.targets_to_search(target, region), say)
    if wanted.node is not None and found.run.nodes is not None and wanted.node >= found.run.nodes:
        raise SlipwayError(
            f"--node is {wanted.node}, but job '{found.run.name}' has {found.run.nodes} nodes",
            hint=f"ask for 0 to {found.run.nodes - 1}, or all",
        )
    show = _as_json if as_json else _printer(found.run)
    if follow:
        run = _follow(found, wanted, lambda line: print_text(show(line)))
        if run.state.value != "succeeded":
            raise click.exceptions.Exit(SlipwayError.exit_code)
        return
    line = None
    for line in logs.follow_lines(found, wanted, to_end=False):
        print_text(show(line))
    if line is None and rank != "all":
        say(f"there is no line of rank {rank}")


def follow_to_end(found: AnyFound, tell: Callable[[str], None]) -> Run:
    """Pass every line of all nodes to `tell` until the job ends, and return the finished run."""
    show = _printer(found.run)
    return _follow(found, Wanted(), lambda line: tell(show(line)))


def _follow(found: AnyFound, wanted: Wanted, tell: Callable[[LogLine], None]) -> Run:
    last, tell_state = [found.run], new_words(say)

    def seen(run: Run) -> None:
        last[0] = run
        tell_state(run)

    try:
        for line in logs.follow_lines(found, wanted, to_end=True, seen=seen):
            tell(line)
    except KeyboardInterrupt:
        say(f"{found.run.name} keeps running; follow it again: slipway logs {found.run.name} --follow")
        raise
    return last[0]


def _number(option: str, text: str) -> int | None:
    if text == "all":
        return None
    if not (text.isascii() and text.isdecimal()):
        raise click.UsageError(f"{option} is '{printable(text)}'; allowed are 0, 1, 2 … or all")
    return int(text)


def _as_json(line: LogLine) -> str:
    return json.dumps(
        {"time": line.time.isoformat(), "node": line.node, "rank": line.rank, "text": line.text}
    )


def _printer(run: Run) -> Callable[[LogLine], str]:
    """Return the function that formats a line: control characters are escaped for a terminal only."""
    shown = printable if is_terminal(sys.stdout) else str
    return lambda line: mark_of(line, run.nodes) + shown(line.text.expandtabs())


# `slipway explain`: says in one sentence why a job is not running, or why it failed.
EXPLAIN_COLUMNS = (
    Column(name="sentence", title="why"),
    Column(name="fix", title="what to do"),
    Column(name="said", title="AWS says"),
)


@click.command()
@newest_job_argument
@target_option
@region_option
@json_option
def explain_command(job: str | None, target: str | None, region: str | None, as_json: bool) -> None:
    """Explain in one sentence why JOB (its id or name, or the beginning of either) is not running, or failed.

    If several jobs match, or without JOB, the newest is used, and a line says which one. The answer
    considers the job, its nodes and attempts, its queue, the compute environment and the scaling
    activities.

    \b
    slipway explain bert_pretrain
    """
    found = find.find_newest(job, find.targets_to_search(target, region), say)
    explanation = with_warning(platform_of(found.target).explain(found), found)
    row = {"name": found.run.name, "id": found.run.id, "state": found.run.state, **asdict(explanation)}
    print_record(EXPLAIN_COLUMNS, {**row, "said": "; ".join(explanation.evidence)}, as_json=as_json)


# `slipway cancel`: cancels a waiting or running job.
CANCEL_COLUMNS = (Column(name="name"), Column(name="id"), Column(name="was"), Column(name="cancelled"))
_REASON = "cancelled with slipway cancel"


@click.command()
@job_argument
@click.option("--reason", default=_REASON, show_default=True, help="Reason that is kept with the job.")
@target_option
@region_option
@json_option
def cancel_command(job: str, reason: str, target: str | None, region: str | None, as_json: bool) -> None:
    """Cancel JOB (its id or name, or the beginning of either).

    If several jobs match, the only one that has not ended is cancelled. A waiting job never starts. The
    processes of a running job get SIGTERM, and 30 seconds to save. If this machine did not submit the job,
    you are asked first; without a terminal, a line says so.

    \b
    slipway cancel bert_pretrain
    """
    found = find.find_unfinished(job, find.targets_to_search(target, region))
    run = found.run
    if run.state.is_final:
        say(f"{run.name} has already ended: {run.state}")
    else:
        words = f"{run.name} {_ELSEWHERE}, so it may be somebody else's"
        if _is_from_elsewhere(run, [found.target]) and not ask(f"{words}. Cancel it?"):
            warn(words)  # nobody can be asked
        platform_of(found.target).cancel(found, reason)
    row = {"name": run.name, "id": run.id, "was": run.state, "cancelled": not run.state.is_final}
    print_record(CANCEL_COLUMNS, row, as_json=as_json)
