"""Synthesizes clusters in this process, each once in a session, and reads their templates."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import aws_cdk as cdk

from slipway.infra.app import build
from slipway.infra.declare.cdk_json import feature_flags
from slipway.infra.declare.types import (
    BatchCluster,
    Cluster,
    Market,
    Mpi,
    MpiCluster,
    SageMakerCluster,
    SlurmCluster,
)

CLUSTER = BatchCluster(
    name="dl1",
    instance_type="dl1.24xlarge",
    max_nodes=16,
    region="us-east-1",
    zone="us-east-1b",
    budget_usd_per_month=5000,
    alert_email="team@example.org",
)

MPI_CLUSTER = MpiCluster(
    name="c6i",
    instance_type="c6i.32xlarge",
    max_nodes=4,
    region="us-east-1",
    zone="us-east-1b",
    budget_usd_per_month=1000,
    alert_email="team@example.org",
)

SLURM_CLUSTER = SlurmCluster(
    name="trn1",
    instance_type="trn1.32xlarge",
    max_nodes=16,
    region="us-east-1",
    zone="us-east-1b",
    budget_usd_per_month=5000,
    alert_email="team@example.org",
)

SAGEMAKER_CLUSTER = SageMakerCluster(
    name="sagemaker",
    instance_type="ml.p4d.24xlarge",
    max_nodes=2,
    region="us-east-1",
    zone="us-east-1b",
    budget_usd_per_month=2000,
    alert_email="team@example.org",
)

# Settings that differ from the defaults, in one synthesis for all tests of them.
OTHER: dict[str, Any] = {
    "ami_parameter": "/team/amis/gaudi",
    "ami_made_from": "gaudi-ecs",
    "budget_usd_per_month": 700,
    "efa_interfaces": 2,
    "job_attempts": 5,
    "job_timeout_hours": 3,
    "keep_data": False,
    "log_retention_days": 30,
    "root_volume_gib": 300,
    "runnable_timeout_minutes": 20,
}
OTHER_MPI: dict[str, Any] = {
    "ami_parameter": "/mine/ami",
    "ami_made_from": "cpu-mpi",
    "idle_minutes": 30,
    "job_timeout_hours": 3,
    "market": Market.SPOT,
    "max_nodes": 8,
    "mpi": Mpi.INTEL_MPI,
    "ssh_cidrs": ("10.9.0.0/16",),
    "start_at": "0 8 * * MON-FRI",
    "stop_at": "30 19 * * *",
    "tags": {"team": "nlp"},
    "time_zone": "Europe/Berlin",
}

Properties = Mapping[str, Any]
_SYNTHESIZED: dict[str, Templates] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Templates:
    """The templates of one cluster; `compute` is its own stack's."""

    network: Mapping[str, Any]
    storage: Mapping[str, Any]
    observability: Mapping[str, Any]
    compute: Mapping[str, Any]
    images: Mapping[str, Any] = field(default_factory=dict)  # of a cluster on AWS Batch

    def all(self) -> tuple[Mapping[str, Any], ...]:
        return tuple(
            filter(None, (self.network, self.storage, self.observability, self.images, self.compute))
        )


def templates_of(cluster: Cluster = CLUSTER, **changes: Any) -> Templates:
    """Synthesize a cluster; equal ones only once in a session. Any allows settings of every type."""
    key = repr(wanted := replace(cluster, **changes))  # its tags are a dictionary, which has no hash
    if key not in _SYNTHESIZED:
        _SYNTHESIZED[key] = synthesize(wanted)
    return _SYNTHESIZED[key]


mpi_templates_of = partial(templates_of, MPI_CLUSTER)
slurm_templates_of = partial(templates_of, SLURM_CLUSTER)
sagemaker_templates_of = partial(templates_of, SAGEMAKER_CLUSTER)


def synthesize(cluster: Cluster) -> Templates:
    """Synthesize it now, even if it was synthesized before."""
    with TemporaryDirectory() as folder:
        app = cdk.App(outdir=folder, context=dict(feature_flags()))
        build(app, [cluster])
        app.synth()
        found = {
            path.name.removesuffix(".template.json").removeprefix(cluster.name).removeprefix("-"): json.loads(
                path.read_text(encoding="utf-8")
            )
            for path in Path(folder).glob("*.template.json")
        }
    return Templates(compute=found.pop(""), **found)


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
        resource.get("DeletionPolicy", "Delete")
        for resource in template["Resources"].values()
        if resource["Type"] == resource_type
    }


def as_text(value: object) -> str:
    """Return a text with an expression: its literal part, and <…> for what is known at deployment."""
    if isinstance(value, Mapping):
        if "Fn::Base64" in value:
            return as_text(value["Fn::Base64"])
        if "Fn::Join" in value:
            delimiter, parts = value["Fn::Join"]
            return str(delimiter).join(map(as_text, parts))
        return "<…>"
    return str(value)
