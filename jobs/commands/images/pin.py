"""`slipway pin`: writes down which release of Ubuntu a machine image begins with."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime

import click

from slipway.jobs.commands.output import Column, json_option, print_record, say

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
    from slipway.jobs.clusters.declared import declared_machine_image, find_checkout
    from slipway.jobs.core.images.ami_locks import lock_path
    from slipway.jobs.images.kernels import kernels_of
    from slipway.jobs.images.parents import newest_release
    from slipway.jobs.images.pinning import find_pin, suite_of, with_pin

    declared = declared_machine_image(image)
    suite = suite_of(declared.parent)
    serial = newest_release(declared.parent, declared.region)
    say(f"reading the packages of Ubuntu {suite}")
    pin = find_pin(serial, lambda moment: kernels_of(suite, moment), datetime.now(UTC))
    path = lock_path(find_checkout() / "containers", image)
    path.write_text(with_pin(path.read_text(encoding="utf-8"), pin), encoding="utf-8")
    print_record("", COLUMNS, {"image": image, **asdict(pin), "lock": str(path)}, as_json=as_json)
