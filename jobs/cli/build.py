"""`slipway image build`: builds a container image in the cloud; its tag is a digest of its files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass

import click

from slipway.jobs.cli.completing import complete_cluster
from slipway.jobs.cli.options import dry_run_option
from slipway.jobs.cloud.aws import answered, client, reader
from slipway.jobs.cloud.deployed import find_digest, find_targets
from slipway.jobs.clusters.images.builds import (
    BuildFailed,
    build_request,
    find_project_image,
    follow,
    new_log_lines,
    recent_builds,
    refuse_failure,
    running_build,
    send,
    zip_entries,
    zip_sources,
)
from slipway.jobs.output import Column, json_option, print_json, print_record, progress, say, warn
from slipway.jobs.words.errors import SlipwayError
from slipway.jobs.words.images.containers import image_tag
from slipway.jobs.words.installation import find_containers
from slipway.jobs.words.targets import BatchTarget

BUILD_COLUMNS = (
    Column(name="image"),
    Column(name="tag"),
    Column(name="digest", absent="not yet"),
    Column(name="repository"),
    Column(name="build", absent="none: it has been pushed already"),
)


@click.command()
@click.argument("image")
@click.option(
    "--on",
    "cluster",
    metavar="CLUSTER",
    shell_complete=complete_cluster,
    help="Cluster whose repository to push to; required if several use the image.",
)
@click.option(
    "--no-wait", is_flag=True, help="Start the build and return; run the command again to follow it."
)
@dry_run_option
@json_option
def image_build_command(image: str, cluster: str | None, no_wait: bool, dry_run: bool, as_json: bool) -> None:
    """Build the container image IMAGE in the cloud, and push it: one of Slipway, or of the project's images/.

    The tag is a digest of the image's files: what was pushed before is not built again. You need no Docker.
    The build log goes to stderr. An image of the project's own is built from its folder images/IMAGE, gets
    Slipway's code on top, and is pushed to the cluster's repository: slipway run --image IMAGE.

    \b
    slipway image build gaudi
    slipway image build gaudi --on dl1 --no-wait
    """
    sources, target = _find(image, cluster)
    tag = sources.tag
    digest = _digest(target, tag)
    build = None
    if digest is not None:
        say(f"{image}:{tag} has been pushed already")
    elif dry_run:
        print_json(asdict(build_request(target, sources.image, sources.tag, latest_build="")))
        return
    else:
        build = _start(target, sources)
        digest = None if no_wait else _wait(target, sources, build)
    row = {"image": image, "tag": tag, "digest": digest, "repository": target.repository_uri, "build": build}
    print_record(BUILD_COLUMNS, row, as_json=as_json)


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildSources:
    """Hold an image, its tag, and a function that zips its files, which is called only for a build."""

    image: str
    tag: str
    zip: Callable[[], bytes]


def _find(image: str, cluster: str | None) -> tuple[BuildSources, BatchTarget]:
    if own := find_project_image(image):
        return BuildSources(
            image=image, tag=own.tag, zip=lambda: zip_entries(own.entries)
        ), _choose_repository(image, cluster)
    containers = find_containers()
    sources = BuildSources(
        image=image, tag=image_tag(containers, image), zip=lambda: zip_sources(containers, image)
    )
    target = _choose(image, cluster)
    if sources.tag != target.image_tag:
        warn(
            f"the job definition of {target.name} names {target.image}:{target.image_tag}, but containers/ "
            f"here has the tag {sources.tag}; deploy the cluster again for jobs to use it"
        )
    return sources, target


def _choose_repository(image: str, cluster: str | None) -> BatchTarget:
    """Return the cluster to whose repository the project's own image is pushed."""
    found = _batch_targets()
    users = [target for target in found if cluster in (None, target.name)]
    if len(users) == 1:
        return users[0]
    names = ", ".join(target.name for target in found)
    if not found:
        raise SlipwayError(
            f"no cluster of AWS Batch is deployed, so '{image}' has no repository",
            hint="deploy one first: cdk deploy NAME",
        )
    whom = f"cluster '{cluster}' has no repository" if cluster else f"{len(found)} deployed clusters have one"
    raise SlipwayError(
        f"'{image}' is pushed to a cluster's repository, and {whom}", hint=f"name one with --on: {names}"
    )


def _batch_targets() -> list[BatchTarget]:
    return [target for target in find_targets(None)[0] if isinstance(target, BatchTarget)]


def _choose(image: str, cluster: str | None) -> BatchTarget:
    found = _batch_targets()
    users = [target for target in found if target.image == image and cluster in (None, target.name)]
    if len(users) == 1:
        return users[0]
    if users:
        names = " or ".join(f"--on {target.name}" for target in users)
        raise SlipwayError(
            f"{len(users)} deployed clusters use container image '{image}'", hint=f"choose one: {names}"
        )
    deployed = ", ".join(f"{target.name} with {target.image}" for target in found) or "none"
    whom = f"cluster '{cluster}' is not deployed with" if cluster else "no deployed cluster uses"
    raise SlipwayError(
        f"{whom} container image '{image}', so it has no repository; deployed: {deployed}",
        hint=f"deploy the cluster first: cdk deploy {cluster or 'NAME'}",
    )


def _digest(target: BatchTarget, tag: str) -> str | None:
    return answered(find_digest(target, tag), "deploy the cluster again")


def _start(target: BatchTarget, sources: BuildSources) -> str:
    builds = recent_builds(target.build_project, reader("codebuild", target.region))
    running = running_build(builds, sources.tag)
    if running:
        say(f"{running} is already building it")
        return running
    latest = builds[0]["id"] if builds else ""
    request = build_request(target, sources.image, sources.tag, latest_build=latest)
    return send(request, sources.zip(), client("s3", target.region), client("codebuild", target.region))


def _wait(target: BatchTarget, sources: BuildSources, build_id: str) -> str:
    try:
        with progress(f"building {sources.image}:{sources.tag}") as now:
            _follow(target.region, build_id, now)
    except KeyboardInterrupt:
        say(f"{build_id} continues in the cloud; run the same command to follow it again")
        raise
    digest = _digest(target, sources.tag)
    if digest is None:
        raise BuildFailed(
            f"{build_id} succeeded but pushed no {sources.image}:{sources.tag}", hint="look into its log"
        )
    return digest


def _follow(region: str, build_id: str, now: Callable[[str], None]) -> None:
    token = None
    for build in follow(build_id, region):
        now(str(build.get("currentPhase", build["buildStatus"])).lower())
        lines, token = new_log_lines(build, reader("logs", region), token)
        for line in lines:
            say(line)
        if build["buildStatus"] != "IN_PROGRESS":
            refuse_failure(build)
