"""`slipway explain`: why a job is not running, or why it failed, in one sentence."""

from __future__ import annotations

from dataclasses import asdict

import click

from slipway.jobs.cli.options import region_option, target_option
from slipway.jobs.output import Column, json_option, print_record

COLUMNS = (
    Column(name="sentence", title="why"),
    Column(name="fix", title="what to do"),
    Column(name="said", title="AWS says"),
)


@click.command()
@click.argument("job")
@target_option
@region_option
@json_option
def command(job: str, target: str | None, region: str | None, as_json: bool) -> None:
    """Explain in one sentence why JOB (its id or name, or the beginning of either) is not running, or failed.

    The answer considers the job, its nodes and attempts, its queue, the compute environment and the scaling
    activities.

    \b
    slipway explain bert_pretrain
    """
    from slipway.jobs.platforms.platform import platform_of
    from slipway.jobs.submit.find import find_run, targets_to_search
    from slipway.jobs.submit.logs import with_warning

    found = find_run(job, targets_to_search(target, region))
    explanation = with_warning(platform_of(found.target).explain(found), found)
    row = {"name": found.run.name, "id": found.run.id, "state": found.run.state, **asdict(explanation)}
    print_record("", COLUMNS, {**row, "said": "; ".join(explanation.evidence)}, as_json=as_json)
