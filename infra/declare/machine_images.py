"""The type of the entries of MACHINE_IMAGES in clusters.py: an AMI that Image Builder bakes.

As with clusters, entries are checked by checks/machine_images.py and not as they are made. An image's
contents are in its lock: containers/images/<name>/lock.toml. No CDK types here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Annotated

from slipway.infra.declare.checks.components import REFERENCE
from slipway.infra.declare.checks.values import between, known_instance_type, known_region, matching
from slipway.jobs.words.images.ami_locks import lock_problems, locked_parent, machine_image_names, pinned
from slipway.jobs.words.images.amis import IMAGE_TAG
from slipway.jobs.words.installation import containers_folder

_NAME = matching(r"[a-z0-9]+(-[a-z0-9]+)*", "the name of a folder of containers/images", longest=64)
_ACCOUNT = matching(r"[0-9]{12}", "an account of twelve digits", longest=12)
_PARENT = matching(
    r"ami-([0-9a-f]{8}|[0-9a-f]{17})|ssm:(/[A-Za-z0-9_.-]+)+",
    "an AMI such as ami-0123456789abcdef0, or ssm: and the name of a parameter",
    longest=1024,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineImage:
    """Declares one AMI: its parent, its components in order, and where it is baked."""

    name: Annotated[str, _NAME]
    runs_on: Annotated[str, known_instance_type]  # the type of its nodes
    instance_type: Annotated[str, known_instance_type]  # the type on which it is built and tested
    region: Annotated[str, known_region]
    zone: str
    parent: Annotated[str, _PARENT]
    parent_moves_because: str | None = None  # the reason if the parent's parameter names the newest image
    components: tuple[str, ...]  # files of infra/components, in the order in which they run
    account: Annotated[str, _ACCOUNT] | None = None  # None: the credentials' account
    root_volume_gib: Annotated[int, between(8, 1024, "GiB")] = 30
    keep_images: Annotated[int, between(1, 100)] = 5  # older ones are deleted with their snapshots
    log_retention_days: Annotated[int, between(1, 3653, "days")] = 365
    tags: Mapping[str, str] = field(default_factory=dict)

    @property
    def billing_tags(self) -> Mapping[str, str]:
        """Return the declared tags and the machine image's own."""
        return MappingProxyType({**self.tags, IMAGE_TAG: self.name})


# The component documents of infra/components, as texts, and their parameters besides those of locks. Nothing
# here parses YAML: declarations are checked with the standard library alone. infra/verify/rules/bakeries.py
# checks the documents in the templates.
COMPONENTS = Path(__file__).parents[1] / "components"
# Parameters of the zip that a stack uploads for components that install this project.
PAYLOAD_PARAMETERS = frozenset({"PayloadSource", "PayloadSha256"})


def component_names() -> tuple[str, ...]:
    return tuple(sorted(path.stem for path in COMPONENTS.glob("*.yaml")))


@lru_cache(maxsize=64)
def read_component(name: str) -> str:
    return (COMPONENTS / f"{name}.yaml").read_text(encoding="utf-8")


def asked_parameters(name: str) -> tuple[str, ...]:
    """Return each parameter that the component refers to, once."""
    return tuple(dict.fromkeys(REFERENCE.findall(read_component(name))))


# The parent from which a machine image is built: the lock's pinned release, if it has one.


def pinned_parent(image: MachineImage) -> str:
    """Return the parent of bakes. An invalid lock pins nothing; another check reports it."""
    if image.name not in machine_image_names(CONTAINERS) or lock_problems(CONTAINERS, image.name):
        return image.parent
    found = locked_parent(CONTAINERS, image.name)
    return pinned(image.parent, found.serial if found else None)


# The folder of this package that has the files named in templates; in a checkout it is the checkout's.
CONTAINERS = containers_folder()
