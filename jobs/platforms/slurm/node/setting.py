"""Reads what a node of a Slurm cluster knows of it, and names its paths. User data writes node.json.

SLIPWAY_NODE_ROOT is for machines that are only imitated: all paths are then under that folder. A node of a
cluster that Slipway did not deploy has no node.json, and works without its facts.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from slipway.containers.runtime.contract import variables
from slipway.jobs.words.errors import SlipwayError
from slipway.jobs.words.given import wrong_fields
from slipway.jobs.words.slurm import NODE_FACTS, SHARED
from slipway.jobs.words.text import decode_json

ROOT_VARIABLE = "SLIPWAY_NODE_ROOT"
USER = "slipway"  # that jobs run as; the machine image has it


class NotASlurmNode(SlipwayError):
    """This machine was not set up as a node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmNodePaths:
    root: Path

    @property
    def facts(self) -> Path:
        return self.root / NODE_FACTS.lstrip("/")

    @property
    def stand_in(self) -> Path:
        """Exists if a yard's processors stand in for accelerators: slurmd passes on no variables."""
        return self.own / "stand-in"

    @property
    def own(self) -> Path:
        return self.facts.parent

    def below(self, path: str) -> Path:
        return self.root / path.lstrip("/")


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmNodeFacts:
    """Holds the facts of node.json; None if it lacks one."""

    cluster: str | None = None
    region: str | None = None
    account: str | None = None
    bucket: str | None = None
    instance_type: str | None = None
    efa_interfaces: int | None = None
    log_group: str | None = None
    file_system_mount: str | None = None
    scratch_mount: str | None = None
    slurm_version: str | None = None
    container: str | None = None  # URI of the ranks' image

    @property
    def shared(self) -> str:
        return self.file_system_mount or SHARED


# Variables that a job's batch script gets from the submitting process; all else is in the frozen request.
PASSED_ON = ("AWS_ENDPOINT_URL", "AWS_EC2_METADATA_SERVICE_ENDPOINT", ROOT_VARIABLE, variables.STAND_IN)


def is_stand_in(where: SlurmNodePaths) -> bool:
    return variables.STAND_IN in os.environ or where.stand_in.exists()


def node_paths(environment: Mapping[str, str] = os.environ) -> SlurmNodePaths:
    return SlurmNodePaths(root=Path(environment.get(ROOT_VARIABLE, "/")))


def read_facts(where: SlurmNodePaths) -> SlurmNodeFacts:
    try:
        record = decode_json(where.facts.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return SlurmNodeFacts()
    except ValueError as error:
        raise NotASlurmNode(f"{where.facts} is not JSON ({error})", hint="deploy the cluster again") from None
    if not isinstance(record, dict):
        raise NotASlurmNode(f"{where.facts} is no object", hint="deploy the cluster again")
    known = {name: record.get(name) for name in SlurmNodeFacts.__dataclass_fields__}
    if wrong := wrong_fields(SlurmNodeFacts, known):
        raise NotASlurmNode(
            f"{where.facts} {', '.join(wrong)}", hint="deploy the cluster again with this version of Slipway"
        )
    return SlurmNodeFacts(**known)


def needed(value: str | None, name: str, where: SlurmNodePaths) -> str:
    """Return a fact that every node of a deployed cluster must have; refuse a node without it."""
    if value is None:
        raise NotASlurmNode(
            f"{where.facts} does not say {name}, so this machine takes no jobs from S3",
            hint="user data of the launch template writes it: look at /var/log/cloud-init-output.log",
        )
    return value
