"""`slipway cluster list` and `targets` show clusters; `slipway cluster upload` copies files to one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import click

from slipway.infra.declare.declared import build_type, declared_cluster, declared_clusters
from slipway.infra.declare.node_images import with_defaults
from slipway.infra.declare.types import Cluster
from slipway.jobs.cli.completing import complete_cluster
from slipway.jobs.cli.options import say_project, target_region_option
from slipway.jobs.cloud.aws import Unanswered
from slipway.jobs.cloud.deployed import (
    DeployedStack,
    count_running_nodes,
    find_stacks,
    find_target_by_name,
    find_targets,
)
from slipway.jobs.cloud.templates import deployed_templates
from slipway.jobs.cloud.uploads import upload
from slipway.jobs.clusters.bill import bill, count_resources
from slipway.jobs.output import (
    Column,
    complain,
    json_option,
    print_json,
    print_record,
    print_table,
    print_text,
    progress,
    say,
    warn,
)
from slipway.jobs.platforms.platform import machine_warnings
from slipway.jobs.words.errors import SlipwayError
from slipway.jobs.words.text import dollars

CLUSTERS_LISTED = (
    Column(name="name"),
    Column(name="kind"),
    Column(name="instance_type"),
    Column(name="region"),
    Column(name="state"),
    Column(name="running_nodes", title="running", align="right"),
    Column(name="max_nodes", title="at most", align="right"),
    Column(name="usd_per_hour_now", title="now", unit="USD/h", align="right", format=dollars),
    Column(name="usd_per_hour_full", title="all nodes", unit="USD/h", align="right", format=dollars),
    Column(name="usd_per_month_idle", title="idle", unit="USD/month", align="right", format=dollars),
    Column(name="price.region", title="price region"),
    Column(name="price.date", title="price date"),
)

CLUSTERS_IN_FULL = (
    *CLUSTERS_LISTED,
    Column(name="zone"),
    Column(name="market"),
    Column(name="price.usd_per_hour", title="price of a node on demand", unit="USD/h"),
    Column(name="price.source", title="source of the price"),
    Column(name="not_counted"),
)

STACKS = (Column(name="stack"), Column(name="status"))
RESOURCES = (Column(name="service"), Column(name="count", align="right"), Column(name="resources"))

# The command to type next for each state of a stack that does not mend itself.
NEXT_COMMANDS: Mapping[str, str] = {
    "CREATE_FAILED": "cdk destroy {stack}, then cdk deploy",
    "ROLLBACK_COMPLETE": "cdk destroy {stack}, then cdk deploy",
    "ROLLBACK_FAILED": "cdk destroy {stack}, then cdk deploy",
    "UPDATE_ROLLBACK_FAILED": "cdk rollback {stack}",
    "DELETE_FAILED": "look at its events, then cdk destroy {stack} again",
    "REVIEW_IN_PROGRESS": "cdk deploy {stack}",
}


@click.command()
@click.argument("names", nargs=-1, metavar="[CLUSTER]...", shell_complete=complete_cluster)
@json_option
def cluster_list_command(names: tuple[str, ...], as_json: bool) -> None:
    """List the declared clusters: whether they are deployed, how many nodes run, and what they cost.

    "idle" is what the deployed stacks cost a month while nothing runs: slipway estimate --idle lists it.

    Prices are on-demand prices, each shown with its region and date. Billed items that have no price in the
    catalogue are listed as not counted; an unknown price is shown as unknown.

    \b
    slipway cluster list
    slipway cluster list dl1 --json
    """
    say_project()
    clusters = [declared_cluster(name) for name in dict.fromkeys(names)] or declared_clusters()
    rows = [_row(cluster) for cluster in clusters]
    if len(names) == 1:
        print_record(CLUSTERS_IN_FULL, rows[0], as_json=as_json)
        if not as_json:
            _print_created(rows[0])
    else:
        print_table("clusters, prices on demand", CLUSTERS_LISTED, rows, as_json=as_json)
        for row in rows:
            not_counted = row["not_counted"]
            if isinstance(not_counted, tuple) and not_counted:
                say(f"not counted for {row['name']}: {', '.join(not_counted)}")


def _row(cluster: Cluster) -> Mapping[str, object]:
    stacks = find_stacks(cluster.name, cluster.region)
    running = stacks if isinstance(stacks, Unanswered) else count_running_nodes(cluster.name, cluster.region)
    names = [] if isinstance(stacks, Unanswered) else [stack.name for stack in stacks]
    templates = stacks if isinstance(stacks, Unanswered) else deployed_templates(names, cluster.region)
    for answer in dict.fromkeys(each for each in (stacks, running) if isinstance(each, Unanswered)):
        warn(f"{cluster.name}: {answer.words}")
    for stack in () if isinstance(stacks, Unanswered) else stacks:
        if stack.status in NEXT_COMMANDS:
            next_command = NEXT_COMMANDS[stack.status].format(stack=stack.name)
            warn(f"{stack.name} is {stack.status}; next: {next_command}")
    return {
        "kind": cluster.kind,
        **asdict(with_defaults(cluster)),
        "build_type": build_type(cluster),
        "state": _state(stacks),
        "running_nodes": None if isinstance(running, Unanswered) else running,
        "stacks": None if isinstance(stacks, Unanswered) else {stack.name: stack.status for stack in stacks},
        "resources": count_resources(stacks),
        **asdict(bill(cluster, templates, running)),
    }


def _state(stacks: Sequence[DeployedStack] | Unanswered) -> str | None:
    if isinstance(stacks, Unanswered):
        return None
    if not stacks:
        return "not deployed"
    unsettled = [
        f"{stack.name} {stack.status}"
        for stack in stacks
        if not stack.status.endswith("_COMPLETE") or stack.status in NEXT_COMMANDS
    ]
    return ", ".join(unsettled) or f"deployed, {len(stacks)} stacks"


def _print_created(row: Mapping[str, object]) -> None:
    """Print the stacks and the resources that exist in AWS, one line for each service."""
    stacks, resources = row["stacks"], row["resources"]
    if isinstance(stacks, Mapping) and stacks:
        print_text("")
        print_table("", STACKS, [{"stack": name, "status": stacks[name]} for name in stacks], as_json=False)
    if isinstance(resources, Mapping) and resources:
        print_text("")
        services: dict[str, dict[str, int]] = {}
        for type_, count in resources.items():
            _, service, name = type_.split("::", 2)
            services.setdefault(service, {})[name] = count
        rows = [
            {
                "service": service,
                "count": sum(found.values()),
                "resources": ", ".join(
                    name if count == 1 else f"{name} × {count}" for name, count in found.items()
                ),
            }
            for service, found in services.items()
        ]
        print_table("", RESOURCES, rows, as_json=False)


# `slipway cluster targets`: lists the deployed clusters that accept jobs, from the records that infra wrote.
TARGETS_LISTED = (
    Column(name="name"),
    Column(name="kind"),
    Column(name="instance_type"),
    Column(name="max_nodes", align="right"),
    Column(name="region"),
    Column(name="image", absent="-"),
    Column(name="image_tag", absent="-"),
    Column(name="machine_image", absent="-"),
)

# Of one target every field is shown, under its name or under one of these.
TITLES: Mapping[str, str] = {
    "ami_parameter": "AMI named by",
    "efa_interfaces": "EFA interfaces of a node",
    "file_system_id": "file system",
    "file_system_mount": "mounted at",
    "is_spot": "Spot",
    "job_definition_arn": "job definition",
    "login_group": "login node's group",
    "mpi": "MPI",
    "queue_arn": "job queue",
    "repository_uri": "repository",
    "scheduler_cluster": "cluster of Slurm",
    "scratch_mount": "scratch at",
    "slurm_version": "Slurm",
    "volume_gb": "volume [GB]",
    "warm_pool_seconds": "instances stay warm for [s]",
}
ABSENT: Mapping[str, str] = {"output_key": "S3's own", "volume_key": "SageMaker's own"}


@click.command()
@click.argument("names", nargs=-1, metavar="[CLUSTER]...", shell_complete=complete_cluster)
@click.option("--region", help="Region to search. Default: those of the declared clusters, or else your own.")
@json_option
def cluster_targets_command(names: tuple[str, ...], region: str | None, as_json: bool) -> None:
    """List the deployed clusters that accept jobs, or show one in full.

    For one cluster it also says on stderr which machine AWS does not start, and why. If the record of a
    cluster cannot be read, the command says that on stderr, too, and ends with exit code 1.

    \b
    slipway cluster targets
    slipway cluster targets dl1 --json
    """
    found, unread = find_targets(region)
    chosen = [target for target in found if not names or target.name in names]
    missing = set(names) - {target.name for target in found}
    rows = [
        {"name": target.name, "kind": target.kind, **asdict(target), "log_group": target.log_group}
        for target in chosen
    ]
    if len(names) == 1 and rows:
        columns = [
            Column(name=name, title=TITLES.get(name, ""), absent=ABSENT.get(name, "none")) for name in rows[0]
        ]
        print_record(columns, rows[0], as_json=as_json)
        for line in machine_warnings(chosen[0]):
            warn(line)
    elif not missing:
        print_table("targets", TARGETS_LISTED, rows, as_json=as_json)
    for error in unread:
        complain(error.message, error.hint)
    if missing:
        raise SlipwayError(
            f"no target is called {' or '.join(map(repr, sorted(missing)))}",
            hint=f"deployed are {', '.join(target.name for target in found)}"
            if found
            else "deploy a cluster first: `slipway cluster list` lists the declared ones",
        )
    if unread:
        raise click.exceptions.Exit(SlipwayError.exit_code)


# `slipway cluster upload`: copies files into a cluster's bucket, for its jobs to read.


@click.command()
@click.argument("path", type=click.Path(path_type=Path))
@click.option(
    "--on",
    "cluster",
    required=True,
    metavar="CLUSTER",
    shell_complete=complete_cluster,
    help="Deployed cluster; slipway cluster targets lists them.",
)
@click.option("--name", help="Name under datasets/ in the bucket. Default: the last part of PATH.")
@target_region_option
@json_option
def cluster_upload_command(
    path: Path, cluster: str, name: str | None, region: str | None, as_json: bool
) -> None:
    """Copy the file or folder at PATH into a deployed cluster's bucket, for its jobs to read.

    Files that are there already with the same content are skipped, so an interrupted upload resumes.

    \b
    slipway cluster upload glue/mrpc --on c6i
    """
    target = find_target_by_name(cluster, region)
    with progress(f"copying to {target.bucket}") as now:
        done = upload(
            path,
            path.resolve().name if name is None else name,
            target,
            lambda sent, total: now(f"{sent / 1e6:.1f} of {total / 1e6:.1f} MB"),
        )
    if as_json:
        print_json(asdict(done))
        return
    print_text(done.address)
    say(f"{done.sent} of {done.files} files sent, {done.sent_bytes / 1e6:.1f} MB")
