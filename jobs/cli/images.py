"""AMIs: `slipway image bake` makes one in Image Builder, `list` lists them, `pin` fixes their parents."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

import click

from slipway.infra.declare.declared import declared_machine_image, declared_machine_images
from slipway.jobs.cli.options import dry_run_option
from slipway.jobs.cloud.aws import client
from slipway.jobs.clusters.images import baking
from slipway.jobs.clusters.images.baked import (
    ami_of,
    current_ami,
    describe,
    describe_manifest,
    find_images,
    how_to_use,
    is_of,
    point_at,
    previous_ami,
    write_manifest,
)
from slipway.jobs.clusters.images.pinning import (
    find_pins,
    kernels_of,
    sha256_of,
    with_checksums,
    with_pin,
)
from slipway.jobs.output import (
    Column,
    json_option,
    print_json,
    print_record,
    print_table,
    progress,
    say,
    warn,
)
from slipway.jobs.words.errors import SlipwayError
from slipway.jobs.words.images.ami_locks import can_be_pinned, lock_digest, lock_path, unfilled
from slipway.jobs.words.images.amis import AmiManifest, Bakery, bakery_stack_name
from slipway.jobs.words.installation import find_containers, find_project

BAKE_COLUMNS = (
    Column(name="image"),
    Column(name="ami_id", title="AMI", absent="not yet"),
    Column(name="baked_at", title="baked", absent="not yet"),
    Column(name="lock_digest", title="lock"),
    Column(name="versions", absent="not yet"),
    Column(name="ami_parameter", title="named in"),
    Column(name="build", absent="none: the AMI is up to date"),
    Column(name="left_out", title="left out", absent="nothing"),
    Column(name="roll_back", absent="not possible: there is no earlier AMI"),
)


@click.command()
@click.argument("image")
@click.option("--wait", is_flag=True, help="Wait until the bake ends, then write its manifest.")
@click.option("--again", is_flag=True, help="Bake even if the AMI in use is up to date.")
@click.option("--use", "ami_id", metavar="AMI", help="Do not bake; roll back to this AMI of an earlier bake.")
@click.option("--region", help="Region of the pipeline. Default: your own.")
@dry_run_option
@json_option
def image_bake_command(
    image: str,
    wait: bool,
    again: bool,
    ami_id: str | None,
    region: str | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Bake IMAGE (a folder of containers/images) into an AMI that clusters start from.

    Without --wait the command returns at once and the bake continues in the cloud; run the command again with
    --wait to follow it. Two commands never start two bakes of the same image at once. If the AMI in use was
    made from the same lock, steps and code, nothing is baked unless you pass --again.

    \b
    slipway image bake cpu-mpi --wait
    slipway image bake cpu-mpi --use ami-0123456789abcdef0      # roll back
    """
    bakery = baking.find_bakery(image, region)
    if ami_id:
        _use(bakery, ami_id, as_json=as_json)
        return
    _warn_of_another_lock(bakery)
    if not again and (manifest := _in_use(bakery)) and not baking.running_image(baking.images_of(bakery)):
        say(f"{manifest.ami_id} is up to date with the pipeline of {image}; use --again to bake it once more")
        write_manifest(manifest, bakery)
        _show(bakery, manifest, None, [], as_json=as_json)
    elif dry_run:
        images = baking.images_of(bakery)
        print_json(asdict(baking.bake_request(bakery, str(images[0]["arn"]) if images else "")))
    else:
        _bake(bakery, wait=wait, as_json=as_json)


def _bake(bakery: Bakery, *, wait: bool, as_json: bool) -> None:
    images = baking.images_of(bakery)
    if build := baking.running_image(images):
        say(f"{build} is already being baked")
    else:
        baking.refuse_newer_parent(bakery)
        request = baking.bake_request(bakery, latest_image=str(images[0]["arn"]) if images else "")
        build = baking.send(request, client("imagebuilder", bakery.region))
    if not wait:
        say(f"{build} is being baked; to follow it: slipway image bake {bakery.name} --wait")
        _show(bakery, None, build, [], as_json=as_json)
        return
    try:
        with progress(f"baking {bakery.name}") as now:
            image, left_out = _follow(bakery, build, now)
    except KeyboardInterrupt:
        say(f"{build} continues in the cloud; to follow it again: slipway image bake {bakery.name} --wait")
        raise
    ami_id = ami_of(image, bakery.region)
    manifest = describe_manifest(ami_id, bakery.region) if ami_id else None
    if manifest is None:
        raise baking.BakeFailed(
            f"{build} is AVAILABLE, but its AMI {ami_id or ''} in {bakery.region} lacks Slipway's tags",
            hint="deploy the pipeline again with this version of Slipway, and bake again with --again",
        )
    write_manifest(manifest, bakery)
    for each in left_out:
        say(f"left out: {each}")
    _show(bakery, manifest, build, left_out, as_json=as_json)


def _follow(bakery: Bakery, build: str, now: Callable[[str], None]) -> tuple[dict[str, object], list[str]]:
    left_out: list[str] = []
    image: dict[str, object] = {}
    for step in baking.follow(build, bakery):
        for line in step.lines:
            say(line)
            if baking.LEFT_OUT in line:
                left_out.append(line.replace(baking.LEFT_OUT, ": "))
        now(f"{step.status.lower()} {step.doing}".rstrip())
        image = dict(step.image)
    baking.refuse_failure(image)
    return image, left_out


def _use(bakery: Bakery, ami_id: str, *, as_json: bool) -> None:
    manifest = describe_manifest(ami_id, bakery.region)
    if manifest is None or manifest.image != bakery.name:
        what = (
            "does not exist or was not baked by Slipway"
            if manifest is None
            else f"is an AMI of {manifest.image}"
        )
        raise SlipwayError(
            f"{ami_id} in {bakery.region} {what}, so {bakery.name} cannot use it",
            hint="slipway image list lists the AMIs",
        )
    point_at(manifest, bakery)
    say(f"{bakery.ami_parameter} names {ami_id} now: nodes started and clusters deployed from now on use it")
    _show(bakery, manifest, None, [], as_json=as_json)


def _in_use(bakery: Bakery) -> AmiManifest | None:
    """Return the manifest of the AMI in use if the deployed pipeline would bake the same one again."""
    ami_id = current_ami(bakery)
    manifest = describe_manifest(ami_id, bakery.region) if ami_id else None
    return manifest if manifest and is_of(manifest, bakery) else None


def _warn_of_another_lock(bakery: Bakery) -> None:
    containers = find_containers()
    if not lock_path(containers, bakery.name).is_file():
        return
    digest = lock_digest(containers, bakery.name)
    if digest != bakery.lock_digest:
        warn(
            f"the deployed pipeline has the lock {bakery.lock_digest}, but containers/images/{bakery.name} "
            f"here has {digest}; to bake that, deploy the pipeline again"
        )
    elif names := unfilled(containers, bakery.name):
        warn(
            f"the lock of {bakery.name} has no checksum yet of {', '.join(names)}: on AWS the bake ends "
            "there and says it; write it into the lock, deploy, bake again (image pin writes a file's)"
        )


def _show(
    bakery: Bakery, manifest: AmiManifest | None, build: str | None, left_out: list[str], *, as_json: bool
) -> None:
    before = previous_ami(bakery, manifest.ami_id) if manifest else None
    row = {
        "image": bakery.name,
        "ami_id": None,
        "baked_at": None,
        "lock_digest": bakery.lock_digest,
        "versions": None,
        **(asdict(manifest) if manifest else {}),
        "ami_parameter": bakery.ami_parameter,
        "region": bakery.region,
        "build": build,
        "left_out": left_out or None,
        "previous_ami": before,
        "roll_back": how_to_use(before, bakery) if before else None,
    }
    print_record(BAKE_COLUMNS, row, as_json=as_json)


# `slipway image list`: lists the AMIs that exist, how old they are, and what uses them.
AMIS_COLUMNS = (
    Column(name="image"),
    Column(name="ami_id", title="AMI"),
    Column(name="state"),
    Column(name="age_days", title="age", unit="days", align="right"),
    Column(name="lock_digest", title="lock"),
    Column(name="used_by", absent="nobody"),
    Column(name="why", absent=""),
)


@click.command()
@click.argument("images", nargs=-1, metavar="[IMAGE]...")
@click.option("--region", help="Region to search. Default: your own.")
@json_option
def image_list_command(images: tuple[str, ...], region: str | None, as_json: bool) -> None:
    """List the AMIs that were baked, newest first: age, state, and what uses them.

    Clusters find the AMI of an image in a parameter. An AMI is "in use" if that parameter names it, "stale"
    if in addition the pipeline would now bake a different one, "replaced" if the parameter names another one,
    and "missing" if the parameter names it but it does not exist.

    \b
    slipway image list
    slipway image list cpu-mpi --json
    """
    found = describe(find_images(region), datetime.now(UTC))
    rows = [asdict(ami) for ami in found if not images or ami.image in images]
    shown = [{**row, "used_by": row["used_by"] or None, "why": row["why"] or None} for row in rows]
    print_table("AMIs", AMIS_COLUMNS, shown, as_json=as_json)


# `slipway image pin`: writes the release of Ubuntu from which machine images are made into their locks.
PIN_COLUMNS = (
    Column(name="image"),
    Column(name="serial", title="release"),
    Column(name="kernel", title="its kernel"),
    Column(name="snapshot", title="packages of"),
    Column(name="newest_kernel", title="their newest kernel"),
    Column(name="lock", title="written to"),
)


@click.command()
@click.argument("images", nargs=-1, metavar="[IMAGE]...")
@json_option
def image_pin_command(images: tuple[str, ...], as_json: bool) -> None:
    """Pin the parent AMI of each IMAGE to Canonical's newest release, and its packages to this hour.

    Without IMAGE, all images whose parent is a release of Canonical's are pinned together. A parent that is
    not pinned will one day have a kernel for which the lock's packages have no headers, and then no driver
    can be built. The release and its kernel are written into the image's lock if the packages fit; if those
    of one image do not, no lock changes. A file without a checksum in the lock is downloaded, and its
    checksum is written. Deploy the bakery afterwards, and bake.

    \b
    slipway image pin
    cdk deploy slipway-bakery-cpu-mpi
    slipway image bake cpu-mpi --wait
    """
    locks = _own_locks()
    declared = [declared_machine_image(name) for name in images]
    chosen = declared or [image for image in declared_machine_images() if can_be_pinned(image.parent)]
    if not chosen:
        raise SlipwayError(
            "no declared machine image begins with a release of Canonical's",
            hint="an AMI id as parent never moves: there is nothing to pin",
        )
    say(f"reading the packages of Ubuntu for {', '.join(image.name for image in chosen)}")
    pins = find_pins(chosen, baking.newest_release, kernels_of, datetime.now(UTC))
    texts = {}
    for name, pin in pins.items():
        before = lock_path(locks, name).read_text(encoding="utf-8")
        texts[name], filled = with_checksums(with_pin(before, pin), sha256_of)
        for url in filled:
            say(f"the lock of {name} holds {url} to the checksum that this machine received from now on")
    for name, text in texts.items():
        lock_path(locks, name).write_text(text, encoding="utf-8")
    rows = [{"image": name, **asdict(pin), "lock": str(lock_path(locks, name))} for name, pin in pins.items()]
    print_table("", PIN_COLUMNS, rows, as_json=as_json)
    say(f"to bake what is pinned now: cdk deploy {' '.join(map(bakery_stack_name, pins))}")


def _own_locks() -> Path:
    """Return the folder whose locks may be written; refuse where Slipway is installed and no checkout."""
    project = find_project()
    if not project.is_checkout:
        raise SlipwayError(
            f"{project.folder} is no checkout of Slipway, and the locks of its images are part of it",
            hint="pin the image in a checkout, and install slipway from there",
        )
    return project.containers
