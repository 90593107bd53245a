"""`slipway logs`: what the ranks of a job print, while it runs or afterwards."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from slipway.jobs.cli.options import region_option, target_option
from slipway.jobs.output import is_terminal, print_text, say
from slipway.jobs.words.errors import SlipwayError
from slipway.jobs.words.text import printable

if TYPE_CHECKING:
    from slipway.jobs.submit.logs import LogLine, Wanted
    from slipway.jobs.words.run import AnyFound, Run


@click.command()
@click.argument("job")
@click.option("--rank", default="all", show_default=True, help="Rank to print: a number, or all.")
@click.option("--node", default="all", show_default=True, help="Node to print: a number, or all.")
@click.option("--follow", is_flag=True, help="Keep printing until the job ends; fail if the job failed.")
@target_option
@region_option
@click.option("--json", "as_json", is_flag=True, help="Print each line as one JSON object.")
def command(
    job: str, rank: str, node: str, follow: bool, target: str | None, region: str | None, as_json: bool
) -> None:
    """Print the logs of JOB (its id or name, or the beginning of either) from all its nodes.

    Lines of a rank start with the rank in brackets; lines of a node's launcher start with the node.

    \b
    slipway logs bert_pretrain --rank 0 --follow
    slipway logs bert_pretrain --node 1 --json
    """
    from slipway.jobs.submit.find import find_run, targets_to_search
    from slipway.jobs.submit.logs import Wanted, follow_lines

    wanted = Wanted(node=_number("--node", node), rank=_number("--rank", rank))
    found = find_run(job, targets_to_search(target, region))
    _refuse_missing_node(found.run, wanted)
    show = _as_json if as_json else _printer(found.run)
    if follow:
        _fail_with(_follow(found, wanted, lambda line: print_text(show(line))))
        return
    for line in follow_lines(found, wanted, to_end=False):
        print_text(show(line))


def follow_to_end(found: AnyFound, tell: Callable[[str], None]) -> Run:
    """Tell every line of all nodes until the job ends, and return the run as it ended."""
    from slipway.jobs.submit.logs import Wanted

    show = _printer(found.run)
    return _follow(found, Wanted(), lambda line: tell(show(line)))


def _follow(found: AnyFound, wanted: Wanted, tell: Callable[[LogLine], None]) -> Run:
    from slipway.jobs.submit.logs import follow_lines, new_words

    last, tell_state = [found.run], new_words(say)

    def seen(run: Run) -> None:
        last[0] = run
        tell_state(run)

    try:
        for line in follow_lines(found, wanted, to_end=True, seen=seen):
            tell(line)
    except KeyboardInterrupt:
        say(f"{found.run.name} keeps running; follow it again: slipway logs {found.run.name} --follow")
        raise
    return last[0]


def _fail_with(run: Run) -> None:
    if run.state.value != "succeeded":
        raise click.exceptions.Exit(SlipwayError.exit_code)


def _number(option: str, text: str) -> int | None:
    if text == "all":
        return None
    if not (text.isascii() and text.isdecimal()):
        raise click.UsageError(f"{option} is '{printable(text)}'; allowed are 0, 1, 2 … or all")
    return int(text)


def _refuse_missing_node(run: Run, wanted: Wanted) -> None:
    if wanted.node is not None and run.nodes is not None and wanted.node >= run.nodes:
        raise SlipwayError(
            f"--node is {wanted.node}, but job '{run.name}' has {run.nodes} nodes",
            hint=f"ask for 0 to {run.nodes - 1}, or all",
        )


def _as_json(line: LogLine) -> str:
    return json.dumps(
        {"time": line.time.isoformat(), "node": line.node, "rank": line.rank, "text": line.text}
    )


def _printer(run: Run) -> Callable[[LogLine], str]:
    """Return the function that formats a line: control characters are escaped for a terminal only."""
    from slipway.jobs.submit.logs import mark_of

    shown = printable if is_terminal(sys.stdout) else str
    return lambda line: mark_of(line, run.nodes) + shown(line.text.expandtabs())
