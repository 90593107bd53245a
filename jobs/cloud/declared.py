"""What is declared, for commands: infra prints it in a process of its own; jobs import none of it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

from slipway.jobs.words.errors import InvalidConfig, Problem, SlipwayError, did_you_mean
from slipway.jobs.words.installation import Project, find_project
from slipway.jobs.words.text import wrong_fields

_TIMEOUT_SECONDS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredCluster:
    """Holds what commands need of a declaration; infra/declare/types.py explains each setting."""

    kind: str
    name: str
    instance_type: str
    max_nodes: int
    region: str
    zone: str
    account: str | None
    market: str
    reservation_id: str | None
    image: str | None  # a folder of containers/images; None: jobs run on the machine itself
    machine_image: str | None  # the folder of the AMI's own lock; None: the image's lock holds it
    ami_parameter: str | None  # None: SageMaker brings its machines
    ami_made_from: str | None  # the machine image of Slipway's that the user's own AMI was made from
    build_type: str | None  # the instance type that its AMI is baked on; None: it is baked elsewhere
    root_volume_gib: int  # of a node's own disk; 0: there is no such node
    volume_gb: int | None  # of an instance that SageMaker starts; None: it starts none
    warm_pool_minutes: int  # for which SageMaker keeps the instances of a job that ended
    egress: str
    file_system: str
    efa_interfaces: int | None  # None: as many as the type has
    job_timeout_hours: int
    idle_minutes: int | None  # None: not declared, or never
    scratch: bool  # a Lustre besides the shared home
    login_instance_type: str | None  # of the node that stays; None: there is none
    controller: str | None  # the size that AWS PCS is asked for; None: it follows max_nodes
    fsx_capacity_gib: int
    fsx_mbps_per_tib: int
    budget_usd_per_month: int
    alert_email: str

    @property
    def locked_by(self) -> str:
        """Return the folder of containers/images whose lock says what the AMI must hold."""
        folder = self.machine_image or self.image
        assert folder is not None, f"cluster {self.name} declares an image or an AMI"
        return folder


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredMachineImage:
    name: str
    region: str
    parent: str  # as it is declared: an AMI id, or ssm: and a parameter


# What some kinds of cluster do not declare.
_NOT_EVERYWHERE: Mapping[str, object] = {
    **dict.fromkeys(("image", "machine_image", "build_type", "login_instance_type", "controller")),
    **dict.fromkeys(("ami_parameter", "ami_made_from", "volume_gb")),
    **dict.fromkeys(("root_volume_gib", "warm_pool_minutes"), 0),
    "idle_minutes": None,
    "scratch": False,
}


def declared_clusters(overrides: Sequence[str] = ()) -> tuple[DeclaredCluster, ...]:
    """Ask infra for the clusters; `overrides` are written as for the CDK: dl1.max_nodes=4."""
    return tuple(map(_decode, _answer(overrides)["clusters"]))


def declared_cluster(name: str, overrides: Sequence[str] = ()) -> DeclaredCluster:
    clusters = declared_clusters(overrides)
    for cluster in clusters:
        if cluster.name == name:
            return cluster
    names = [cluster.name for cluster in clusters]
    raise SlipwayError(
        f"no cluster '{name}' is declared",
        hint=did_you_mean(name, names, otherwise=f"declared are {', '.join(names) or 'none'}"),
    )


def declared_machine_image(name: str) -> DeclaredMachineImage:
    images = _answer(()).get("machine_images", [])
    for image in images:
        if image["name"] == name:
            return DeclaredMachineImage(name=name, region=image["region"], parent=image["parent"])
    names = [image["name"] for image in images]
    raise SlipwayError(
        f"no machine image '{name}' is declared",
        hint=did_you_mean(name, names, otherwise=f"declared are {', '.join(names) or 'none'}"),
    )


def _answer(overrides: Sequence[str]) -> dict[str, list[dict[str, str]]]:
    answer = _ask_infra(find_project(), overrides)
    problems = answer.get("problems")
    if problems:
        raise InvalidConfig([Problem(**problem) for problem in problems])
    return answer


def python_module(project: Project, module: str) -> list[str]:
    """Return the command that runs a module of infra for the project, in the project's folder.

    A checkout runs its own infra. Elsewhere a folder or module of the user's is never taken for one of ours.
    """
    return [sys.executable, *([] if project.is_checkout else ["-P"]), "-m", module]


def _ask_infra(project: Project, overrides: Sequence[str]) -> dict[str, list[dict[str, str]]]:
    command = python_module(project, "slipway.infra.declare")
    try:
        ran = subprocess.run(
            [*command, *(f"--context={override}" for override in overrides)],
            cwd=project.folder,
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=_TIMEOUT_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise SlipwayError(
            f"{project.declarations} was not read within {_TIMEOUT_SECONDS} s",
            hint="declare clusters there, and compute elsewhere: every command reads it",
        ) from None
    try:
        answer: dict[str, list[dict[str, str]]] = json.loads(ran.stdout)
    except json.JSONDecodeError:
        last = (ran.stderr.strip().splitlines() or ["it printed nothing"])[-1]
        raise SlipwayError(
            f"the declarations of {project.folder} cannot be read: {last}",
            hint=f"run `python -m slipway.infra.declare` in {project.folder} to see why",
        ) from None
    return answer


def _decode(record: dict[str, str]) -> DeclaredCluster:
    complete = {**_NOT_EVERYWHERE, **record}
    wrong = wrong_fields(DeclaredCluster, complete)
    if wrong:
        raise SlipwayError(
            f"a declared cluster {', '.join(wrong)}",
            hint="this checkout's infra and the installed slipway differ: install slipway from the checkout",
        )
    return DeclaredCluster(**{field.name: complete[field.name] for field in fields(DeclaredCluster)})  # type: ignore[arg-type]  # wrong_fields has looked
