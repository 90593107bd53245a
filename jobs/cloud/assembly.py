"""Reads what `cdk synth` wrote: how the CDK calls the stacks that AWS knows by their names."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

_STACK = "aws:cloudformation:stack"
_NESTED = "cdk:cloud-assembly"  # of a Stage


def names_in_cdk(folder: Path, region: str) -> dict[str, str]:
    """Return what `cdk destroy` calls each stack of a region, by the stack's name: STAGE/NAME in a Stage."""
    return dict(_named(folder, region))


def _named(folder: Path, region: str) -> Iterator[tuple[str, str]]:
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    for artifact, described in manifest.get("artifacts", {}).items():
        properties = described.get("properties", {})
        if described["type"] == _NESTED:
            yield from _named(folder / properties["directoryName"], region)
        elif described["type"] == _STACK and described["environment"].endswith(f"/{region}"):
            yield properties.get("stackName", artifact), described.get("displayName", artifact)
