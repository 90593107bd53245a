"""Deploys declared clusters without the CDK's command line: synthesis here, stacks by the yard's API.

test_cdk_cli.py, test_clusters.py, README's session and the roads use the command line, which writes the
templates of all clusters each time; here those of one are enough.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import aws_cdk as cdk

from slipway.infra.build.bakeries import build_bakeries
from slipway.infra.build.clusters import BUILDERS
from slipway.infra.build.parts import NOTHING_GIVEN
from slipway.infra.declare.cdk_json import feature_flags
from slipway.infra.declare.declared import load, load_machine_images
from tests.end_to_end.conftest import REGION, Shell

_ACCOUNT = "123456789012"
_LOOK_AGAIN = {"Delay": 0.2, "MaxAttempts": 1500}


@contextmanager
def deployed(shell: Shell, folder: Path, *clusters: str, **settings: str) -> Iterator[None]:
    """Deploy clusters, all with these settings; delete them with their data at the end, for other tests of
    the yard deploy them, too."""
    stacks = deploy(shell, folder, *clusters, **settings)
    try:
        yield
    finally:
        for cluster in clusters:
            shell.must("slipway", "cluster", "empty", cluster, "--yes")
        delete(shell, stacks)


def deploy(
    shell: Shell, folder: Path, *clusters: str, images: Sequence[str] = (), **settings: str
) -> list[str]:
    """Deploy clusters, and bakeries of machine images; return the stacks in the order of creation."""
    given = {"keep_data": "false", **settings}
    context = {f"{cluster}.{name}": text for cluster in clusters for name, text in given.items()}
    app = cdk.App(outdir=str(folder), context={**feature_flags(), **context})
    declared = [cluster for cluster in load(context) if cluster.name in clusters]
    assert len(declared) == len(clusters), clusters
    for cluster in declared:
        BUILDERS[type(cluster)](app, cluster, NOTHING_GIVEN)
    build_bakeries(app, [image for image in load_machine_images() if image.name in images])
    app.synth()
    return create(shell, folder)


def create(shell: Shell, folder: Path) -> list[str]:
    """Create the stacks of an assembly, each after those that it needs."""
    artifacts = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))["artifacts"]
    stacks = {name: each for name, each in artifacts.items() if each["type"] == "aws:cloudformation:stack"}
    cloudformation, waiting, created = shell.client("cloudformation"), dict(stacks), list[str]()
    while waiting:
        ready = [
            name for name, each in waiting.items() if not waiting.keys() & set(each.get("dependencies", ()))
        ]
        for name in ready:
            _create_one(shell, folder, name, waiting.pop(name)["properties"])
        for name in ready:
            cloudformation.get_waiter("stack_create_complete").wait(StackName=name, WaiterConfig=_LOOK_AGAIN)
        created += ready
    return created


def _create_one(shell: Shell, folder: Path, name: str, properties: dict[str, Any]) -> None:
    assets = json.loads((folder / f"{name}.assets.json").read_text(encoding="utf-8"))["files"]
    for asset in assets.values():
        for place in asset["destinations"].values():
            content = (folder / asset["source"]["path"]).read_bytes()
            bucket = _filled(place["bucketName"])
            shell.client("s3").put_object(Bucket=bucket, Key=place["objectKey"], Body=content)
    address = _filled(properties["stackTemplateAssetObjectUrl"]).removeprefix("s3://")
    shell.client("cloudformation").create_stack(
        StackName=name,
        TemplateURL=f"https://s3.{REGION}.amazonaws.com/{address}",
        Capabilities=["CAPABILITY_NAMED_IAM"],
        Tags=[{"Key": key, "Value": value} for key, value in properties.get("tags", {}).items()],
    )


def _filled(text: str) -> str:
    return text.replace("${AWS::AccountId}", _ACCOUNT).replace("${AWS::Region}", REGION)


def delete(shell: Shell, stacks: Sequence[str]) -> None:
    """Delete stacks in the opposite order of their creation."""
    cloudformation = shell.client("cloudformation")
    for name in reversed(stacks):
        cloudformation.delete_stack(StackName=name)
        cloudformation.get_waiter("stack_delete_complete").wait(StackName=name, WaiterConfig=_LOOK_AGAIN)
