"""A user's command as settings of the recipe `command`, which carries it to every platform. Pure."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

from slipway.jobs.code.folder import CannotShip, ProjectFolder
from slipway.jobs.words.job import LONGEST_NAME, DoesNotFit
from slipway.jobs.words.targets import Target
from slipway.jobs.words.text import printable

RECIPE = "command"
_NO_NAME = re.compile(r"[^A-Za-z0-9_-]+")
# AWS Batch would replace it in a command; in JSON the same word has another spelling.
_PLACEHOLDER, _SPELLED_OTHERWISE = "Ref::", "Ref:\\u003a"
_NO_INDEX = re.compile(r"^\s*--no-index\s*$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnCommand:
    """Hold what a person wants to run, beside the folder and the place."""

    words: tuple[str, ...]
    is_per_node: bool = False  # it starts the processes of its node itself
    requirements: str | None = None  # a file of the folder


def command_settings(command: OwnCommand, source: str) -> dict[str, str]:
    """Return the settings; `source` is where the folder's archive lies."""
    words = json.dumps(command.words).replace(_PLACEHOLDER, _SPELLED_OTHERWISE)
    return {
        "source": source,
        "command": words,
        **({"per_node": "yes"} if command.is_per_node else {}),
        **({"requirements": command.requirements} if command.requirements else {}),
    }


def folder_name(folder: Path) -> str:
    """Return the folder's name as a job may have it."""
    return job_name(folder.resolve().name)


def job_name(text: str) -> str:
    """Return the text as a job may be named."""
    name = _NO_NAME.sub("-", text).strip("-_")[:LONGEST_NAME]
    return name or RECIPE


def refuse_requirements(requirements: str, folder: ProjectFolder, target: Target) -> None:
    """Refuse a file that does not travel, and one that no node of the cluster could install."""
    refuse_left_behind(requirements, folder)
    content = (folder.path / requirements).read_text(encoding="utf-8", errors="replace")
    refuse_uninstallable(requirements, content, target)


def refuse_left_behind(requirements: str, folder: ProjectFolder) -> None:
    """Refuse a file that does not travel with its folder."""
    if requirements not in {file.name for file in folder.files}:
        raise CannotShip(
            f"requirements {printable(requirements)} is no file that is sent from "
            f"{printable(str(folder.path))}",
            hint="give a file of the folder that git does not ignore, without ./ before it",
        )


def refuse_uninstallable(requirements: str, content: str, target: Target) -> None:
    """Refuse packages that pip would look for where no node of the cluster can."""
    if not target.has_internet and not _NO_INDEX.search(content):
        raise DoesNotFit(
            f"the nodes of {target.name} reach no internet, so that pip could not install "
            f"{printable(requirements)} there",
            hint="put wheels into the folder, with --no-index and --find-links in the file; or deploy with a "
            f"way out: cdk deploy {target.name} -c {target.name}.egress=nat",
        )
