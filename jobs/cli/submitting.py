"""The part that all commands which submit a job share once the job is known: ask, send, follow, print."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import click

from slipway.jobs.cli.options import say_project
from slipway.jobs.output import Column, ask, print_json, print_record, say, warn
from slipway.jobs.words.errors import SlipwayError
from slipway.jobs.words.text import dollars

if TYPE_CHECKING:
    from slipway.jobs.platforms.platform import AnyPrepared
    from slipway.jobs.submit.submission import Submitted
    from slipway.jobs.words.run import Agreed


SUBMITTING_COLUMNS = (
    Column(name="name"),
    Column(name="id"),
    Column(name="state"),
    Column(name="target"),
    Column(name="recipe"),
    Column(name="nodes"),
    Column(name="waits_for", absent="no job"),
    Column(name="image"),
    Column(name="image_digest", absent="not pushed"),
    Column(name="timeout_hours", title="timeout of an attempt", unit="h"),
    Column(name="attempts", title="attempts at most"),
    Column(name="ceiling.usd", title="costs at most", unit="USD", format=dollars),
    Column(name="ceiling.price.usd_per_hour", title="price of a node on demand", unit="USD/h"),
    Column(name="ceiling.price.region", title="price region"),
    Column(name="ceiling.price.date", title="price date"),
    Column(name="bought", title="as its nodes are bought", absent=""),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """Hold the options that say how to submit; all other options are fields of the job."""

    agreed: Agreed
    again: bool
    follow: bool
    dry_run: bool
    as_json: bool


def take_answers(asked: dict[str, Any]) -> Answers:
    """Remove these options from the values of all options; what remains are fields of the job."""
    from slipway.jobs.words.run import parse_agreed

    flags = {name: asked.pop(name) for name in ("again", "follow", "dry_run", "as_json")}
    return Answers(agreed=parse_agreed(asked.pop("confirm_cost")), **flags)


def seconds_of(hours: float | None) -> int | None:
    """Convert hours to seconds; refuse what is no time limit, such as NaN and infinity."""
    from slipway.jobs.words.job import LONGEST_TIMEOUT_SECONDS, SHORTEST_TIMEOUT_SECONDS
    from slipway.jobs.words.run import SECONDS_PER_HOUR

    if hours is None:
        return None
    seconds = hours * SECONDS_PER_HOUR
    if not SHORTEST_TIMEOUT_SECONDS <= seconds + 0.5 < LONGEST_TIMEOUT_SECONDS + 1:
        allowed = f"0.017 (a minute) to {LONGEST_TIMEOUT_SECONDS / SECONDS_PER_HOUR:,.0f} (a year)"
        raise click.BadParameter(
            f"{hours:g} hours are not allowed; write {allowed}.", param_hint="'--timeout-hours'"
        )
    return round(seconds)


def carry_out(
    prepared: AnyPrepared,
    answers: Answers,
    *,
    bring: Callable[[], None] | None = None,
    columns: Sequence[Column] = SUBMITTING_COLUMNS,
    more: Mapping[str, object] | None = None,
) -> None:
    """Submit the job and print it with `more`, or print what would be sent.

    `bring` uploads what the job reads; it is called after the user agrees to the cost, and only for a new
    job.
    """
    for warning in prepared.warnings:
        warn(warning)
    if answers.dry_run:
        say_project()
        print_json(
            {
                "request": asdict(prepared.request),
                "target": prepared.target.name,
                "image_digest": prepared.image_digest,
                "waits_for": prepared.waits_for,
                "ceiling": asdict(prepared.ceiling),
                "bought": prepared.bought,
                "warnings": prepared.warnings,
                **(more or {}),
            }
        )
        return
    _end(_submit(prepared, answers, bring), answers, columns, more or {})


def _submit(prepared: AnyPrepared, answers: Answers, bring: Callable[[], None] | None) -> Submitted:
    from slipway.jobs.submit.submission import Consent, submit_prepared

    consent = Consent(agreed=answers.agreed, ask=ask, again=answers.again)
    try:
        submitted = submit_prepared(prepared, consent, bring=bring, say=say)
    except KeyboardInterrupt:
        say("the job may or may not have been submitted; the same command finds out before it submits")
        raise
    if submitted.existed:
        say(f"{submitted.prepared.name} was submitted before; use --again to run it once more")
        if prepared.waits_for:
            say(f"its dependencies were set back then: slipway explain {submitted.prepared.name}")
    return submitted


def _end(
    submitted: Submitted, answers: Answers, columns: Sequence[Column], more: Mapping[str, object]
) -> None:
    """Print the record of the job; with --follow only after the job has ended."""
    from slipway.jobs.cli.jobs import follow_to_end
    from slipway.jobs.submit.find import refresh
    from slipway.jobs.words.launch_environment import timeout_seconds
    from slipway.jobs.words.run import SECONDS_PER_HOUR

    prepared = submitted.prepared
    name, job, target = prepared.name, prepared.job, prepared.target
    if answers.follow:
        say(f"{name} is {submitted.job_id}")
    found = refresh(submitted.job_id, target)
    run = follow_to_end(found, say) if answers.follow else found.run
    row = {
        "name": name,
        "id": submitted.job_id,
        "existed": submitted.existed,
        "state": run.state.value,
        "target": target.name,
        "recipe": job.recipe,
        "nodes": job.nodes,
        "waits_for": prepared.waits_for or None,
        "image": prepared.image,
        "image_digest": prepared.image_digest,
        "timeout_hours": timeout_seconds(job, target) / SECONDS_PER_HOUR,
        "attempts": prepared.attempts,
        "ceiling": asdict(prepared.ceiling),
        "bought": prepared.bought,
    }
    print_record(columns, {**row, **more}, as_json=answers.as_json)
    if submitted.existed and found.run.state.value == "failed":
        raise SlipwayError(
            f"{name} failed before, and nothing was started",
            hint=f"slipway explain {name}; --again submits it once more",
        )
    if answers.follow and run.state.value != "succeeded":
        raise click.exceptions.Exit(1)
