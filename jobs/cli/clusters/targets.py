"""`slipway targets`: the deployed clusters that accept jobs, as infra recorded them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict

import click

from slipway.jobs.output import Column, complain, json_option, print_record, print_table, warn
from slipway.jobs.words.errors import SlipwayError

LISTED = (
    Column(name="name"),
    Column(name="kind"),
    Column(name="instance_type"),
    Column(name="max_nodes", align="right"),
    Column(name="region"),
    Column(name="image", absent="-"),
    Column(name="image_tag", absent="-"),
    Column(name="machine_image", absent="-"),
)

# What only one kind has.
OF_KIND: Mapping[str, tuple[Column, ...]] = {
    "batch": (
        Column(name="image"),
        Column(name="image_tag"),
        Column(name="queue_arn", title="job queue"),
        Column(name="job_definition_arn", title="job definition"),
        Column(name="repository_uri", title="repository"),
        Column(name="build_project"),
    ),
    "mpi": (
        Column(name="machine_image"),
        Column(name="ami_parameter", title="named by"),
        Column(name="mpi", title="MPI"),
        Column(name="node_group"),
        Column(name="is_spot", title="Spot"),
        Column(name="run_document"),
        Column(name="stop_document"),
    ),
    "slurm": (
        Column(name="machine_image"),
        Column(name="ami_parameter", title="named by"),
        Column(name="slurm_version", title="Slurm"),
        Column(name="scheduler_cluster", title="cluster of Slurm"),
        Column(name="queue"),
        Column(name="node_group"),
        Column(name="login_group", title="login node's group"),
        Column(name="is_spot", title="Spot"),
        Column(name="run_document"),
        Column(name="scratch_mount", title="scratch at", absent="none"),
    ),
    "sagemaker": (
        Column(name="machine_image"),
        Column(name="image", title="training image"),
        Column(name="execution_role"),
        Column(name="is_spot", title="Spot"),
        Column(name="volume_gb", title="volume", unit="GB"),
        Column(name="volume_key", title="key of the volume", absent="SageMaker's own"),
        Column(name="output_key", title="key of the output", absent="S3's own"),
        Column(name="warm_pool_seconds", title="instances stay warm for", unit="s"),
        Column(name="subnet"),
        Column(name="security_group"),
    ),
}
IN_FULL = (
    *LISTED[:-3],
    Column(name="account"),
    Column(name="zone"),
    Column(name="efa_interfaces", title="EFA interfaces of a node"),
    Column(name="bucket"),
    Column(name="log_group"),
    Column(name="file_system_id", title="file system", absent="none"),
    Column(name="file_system_mount", title="mounted at", absent="-"),
)


@click.command()
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--region", help="Region to search. Default: those of the declared clusters, or else your own.")
@json_option
def command(names: tuple[str, ...], region: str | None, as_json: bool) -> None:
    """List the deployed clusters that accept jobs, or show one in full.

    Of one cluster it also says on stderr which machine AWS does not start, and why. If the record of a
    cluster cannot be read, the command says so there, too, and ends with exit code 1.

    \b
    slipway targets
    slipway targets dl1 --json
    """
    from slipway.jobs.cloud.deployed import find_targets
    from slipway.jobs.platforms.platform import missing_machines_of

    found, unread = find_targets(region)
    chosen = [target for target in found if not names or target.name in names]
    missing = set(names) - {target.name for target in found}
    rows = [{"kind": target.kind, "log_group": target.log_group, **asdict(target)} for target in chosen]
    if len(names) == 1 and rows:
        print_record("", (*IN_FULL, *OF_KIND[chosen[0].kind]), rows[0], as_json=as_json)
        for what, fix in missing_machines_of(chosen[0]):
            warn(f"{what}; {fix}" if fix else what)
    elif not missing:
        print_table("targets", LISTED, rows, as_json=as_json)
    for error in unread:
        complain(error.message, error.hint)
    if missing:
        raise SlipwayError(_missing(sorted(missing)), hint=_known([target.name for target in found]))
    if unread:
        raise click.exceptions.Exit(SlipwayError.exit_code)


def _missing(names: Sequence[str]) -> str:
    return f"no target is called {' or '.join(repr(name) for name in names)}"


def _known(names: Sequence[str]) -> str:
    return (
        f"deployed are {', '.join(names)}"
        if names
        else "deploy a cluster first: `slipway clusters` lists the declared ones"
    )
