"""Synthesizes clusters in this process, each once a session, and reads their templates."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import aws_cdk as cdk

from infra.app import build
from infra.config import BatchCluster
from infra.gates import cdk_context

CLUSTER = BatchCluster(
    name="dl1",
    instance_type="dl1.24xlarge",
    max_nodes=16,
    region="us-east-1",
    zone="us-east-1b",
    budget_usd_per_month=5000,
    alert_email="team@example.org",
)

Properties = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Templates:
    """The templates of one cluster, by the word of each stack; the compute stack's word is empty."""

    network: Mapping[str, Any]
    storage: Mapping[str, Any]
    observability: Mapping[str, Any]
    images: Mapping[str, Any]
    batch: Mapping[str, Any]

    def all(self) -> tuple[Mapping[str, Any], ...]:
        return (self.network, self.storage, self.observability, self.images, self.batch)


@lru_cache(maxsize=64)
def _synthesized(cluster: tuple[tuple[str, Any], ...]) -> Templates:
    return synthesize(replace(CLUSTER, **dict(cluster)))


def templates_of(**changes: Any) -> Templates:
    """Any: settings of every type, all of them hashable."""
    return _synthesized(tuple(sorted(changes.items())))


def synthesize(cluster: BatchCluster) -> Templates:
    with TemporaryDirectory() as folder:
        app = cdk.App(outdir=folder, context=dict(cdk_context()))
        build(app, [cluster])
        app.synth()
        return read_templates(Path(folder), cluster.name)


def read_templates(assembly: Path, cluster: str) -> Templates:
    def read(stack: str) -> Mapping[str, Any]:
        template = json.loads((assembly / f"{stack}.template.json").read_text(encoding="utf-8"))
        assert isinstance(template, dict)
        return template

    words = ("network", "storage", "observability", "images")
    return Templates(batch=read(cluster), **{word: read(f"{cluster}-{word}") for word in words})


def of_type(template: Mapping[str, Any], resource_type: str) -> dict[str, Properties]:
    """Properties by logical id."""
    return {
        name: each.get("Properties", {})
        for name, each in template["Resources"].items()
        if each["Type"] == resource_type
    }


def only(template: Mapping[str, Any], resource_type: str) -> Properties:
    """The properties of the one resource of a type."""
    (properties,) = of_type(template, resource_type).values()
    return properties


def deletion_policies(template: Mapping[str, Any], resource_type: str) -> set[str]:
    return {
        each.get("DeletionPolicy", "Delete")
        for each in template["Resources"].values()
        if each["Type"] == resource_type
    }


def as_text(value: object) -> str:
    """A text with an expression in it: what it says literally, and <…> for what is told at deployment."""
    if isinstance(value, Mapping):
        if "Fn::Base64" in value:
            return as_text(value["Fn::Base64"])
        if "Fn::Join" in value:
            delimiter, parts = value["Fn::Join"]
            return str(delimiter).join(map(as_text, parts))
        return "<…>"
    return str(value)
