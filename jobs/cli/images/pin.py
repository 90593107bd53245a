"""`slipway pin`: writes down which release of Ubuntu a machine image begins with."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

import click

from slipway.jobs.output import Column, json_option, print_record, say
from slipway.jobs.words.errors import SlipwayError

COLUMNS = (
    Column(name="image"),
    Column(name="serial", title="release"),
    Column(name="kernel", title="its kernel"),
    Column(name="snapshot", title="packages of"),
    Column(name="newest_kernel", title="their newest kernel"),
    Column(name="lock", title="written to"),
)


@click.command()
@click.argument("image")
@json_option
def command(image: str, as_json: bool) -> None:
    """Pin the parent AMI of IMAGE to Canonical's newest release, and its packages to this hour.

    A parent that moves brings, one day, a kernel for which the packages of the lock have no headers, and
    then no driver can be built. The release and its kernel are written into the image's lock, if the packages
    fit. Deploy the bakery afterwards, and bake.

    \b
    slipway pin cpu-mpi
    cdk deploy slipway-bakery-cpu-mpi
    slipway bake cpu-mpi --wait
    """
    from slipway.infra.declare.declared import declared_machine_image
    from slipway.jobs.clusters.images.kernels import kernels_of
    from slipway.jobs.clusters.images.parents import newest_release
    from slipway.jobs.clusters.images.pinning import find_pin, suite_of, with_pin
    from slipway.jobs.words.images.ami_locks import lock_path

    locks = _own_locks()
    declared = declared_machine_image(image)
    suite = suite_of(declared.parent)
    serial = newest_release(declared.parent, declared.region)
    say(f"reading the packages of Ubuntu {suite}")
    pin = find_pin(serial, lambda moment: kernels_of(suite, moment), datetime.now(UTC))
    path = lock_path(locks, image)
    path.write_text(with_pin(path.read_text(encoding="utf-8"), pin), encoding="utf-8")
    print_record("", COLUMNS, {"image": image, **asdict(pin), "lock": str(path)}, as_json=as_json)


def _own_locks() -> Path:
    """Return the folder whose locks may be written: what is installed belongs to no project."""
    from slipway.jobs.words.installation import find_project

    project = find_project()
    if not project.is_checkout:
        raise SlipwayError(
            f"{project.folder} is no checkout of Slipway, and the locks of its images are part of it",
            hint="pin the image in a checkout, and install slipway from there",
        )
    return project.containers
