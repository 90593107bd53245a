"""Finds the project that a command works for: the nearest folder, upward, that declares clusters.

A project is a folder with a cdk.json and a clusters.py. A checkout of Slipway is one as well, with its
declarations in infra/.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

from slipway.jobs.words.errors import SlipwayError
from slipway.jobs.words.installation import PACKAGE, containers_folder

CDK_JSON = "cdk.json"
DECLARATIONS = "clusters.py"
# In the context of cdk.json, and the tag of its stacks: two projects in one account are told apart by it.
PROJECT_KEY = "slipway:project"
_OF_CHECKOUT = Path("slipway", "infra", DECLARATIONS)
_NAME = re.compile(r"[a-z0-9](-?[a-z0-9])*")
_LONGEST_NAME = 64


class NoProject(SlipwayError):
    """No clusters are declared here: a laptop that only submits needs none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    folder: Path
    declarations: Path  # the file whose CLUSTERS are declared

    @property
    def is_checkout(self) -> bool:
        """Return True if its clusters are those of Slipway itself."""
        return self.declarations == self.folder / _OF_CHECKOUT

    @property
    def containers(self) -> Path:
        """Return the folder of code and images: a checkout's own, and elsewhere what is installed."""
        return self.folder / "containers" if self.is_checkout else containers_folder()

    @property
    def name(self) -> str | None:
        """Return what cdk.json calls the project; None: it shares its clusters' names with nobody."""
        return _name_in(self.folder / CDK_JSON)


def find_project(start: Path | None = None) -> Project:
    """Find it from a folder upward; without one, the checkout that slipway is installed from serves."""
    here = start or Path.cwd()
    for folder in (here, *here.parents, PACKAGE.resolve().parent):
        for declarations in (folder / DECLARATIONS, folder / _OF_CHECKOUT):
            if declarations.is_file() and (folder / CDK_JSON).is_file():
                return Project(folder=folder, declarations=declarations)
    raise NoProject(
        f"no cluster is declared: neither {here} nor a folder above it has a {CDK_JSON} and a {DECLARATIONS}",
        hint="go to your project, or begin one: slipway init FOLDER",
    )


def find_containers() -> Path:
    """Return the folder of code and images that commands build from here."""
    try:
        return find_project().containers
    except NoProject:
        return containers_folder()


def _name_in(path: Path) -> str | None:
    try:
        context = json.loads(path.read_text(encoding="utf-8")).get("context", {})
        name: object = context.get(PROJECT_KEY)
    except (OSError, ValueError, AttributeError) as error:
        raise SlipwayError(f"{path} cannot be read: {error}", hint="mend it, or take it from git") from None
    if name is None:
        return None
    if isinstance(name, str) and len(name) <= _LONGEST_NAME and _NAME.fullmatch(name):
        return name
    raise SlipwayError(
        f"{path} names the project {name!r}; allowed are small letters, digits and single hyphens, "
        f"at most {_LONGEST_NAME} of them",
        hint=f"mend {PROJECT_KEY} in its context",
    )
