"""`slipway empty`: deletes everything in a throw-away cluster's bucket, so that it can be destroyed."""

from __future__ import annotations

import click

from slipway.jobs.output import can_ask, progress, say
from slipway.jobs.words.errors import SlipwayError


@click.command()
@click.argument("cluster")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation. This cannot be undone.")
def command(cluster: str, yes: bool) -> None:
    """Delete every object in the bucket of a deployed CLUSTER, including old versions.

    Run it before `cdk destroy` of a cluster that was deployed with keep_data=false: that deletes the bucket
    too, and S3 only deletes empty buckets. Machines that stay between jobs are stopped first, because they
    write to the bucket. The command refuses while a job runs, because `cdk destroy` would end that job.

    \b
    slipway empty dl1 --yes
    """
    from slipway.jobs.cloud.deployed import find_targets
    from slipway.jobs.clusters.emptying import empty, refuse_kept
    from slipway.jobs.platforms.mpi.halting import halt
    from slipway.jobs.platforms.running import refuse_running
    from slipway.jobs.words.targets import MpiTarget

    target = next((target for target in find_targets(None)[0] if target.name == cluster), None)
    if target is None:
        raise SlipwayError(f"no cluster named '{cluster}' is deployed", hint="slipway targets lists them")
    refuse_kept(target)
    refuse_running(target)
    if not yes and not can_ask():
        raise SlipwayError(
            f"everything in {target.bucket} would be deleted, and without a terminal nobody can be asked",
            hint=f"slipway empty {cluster} --yes",
        )
    if not yes:
        click.confirm(f"Delete everything in {target.bucket} forever?", abort=True, err=True)
    if isinstance(target, MpiTarget):
        with progress(f"stopping the machines of {cluster}") as now:
            halt(target, now)
    with progress(f"emptying {target.bucket}") as now:
        deleted = empty(target, lambda count: now(f"{count} versions deleted"))
    say(f"{deleted} versions deleted")
