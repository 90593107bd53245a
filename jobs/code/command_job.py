"""A user's command as settings of the recipe `command`, which carries it to every platform. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from slipway.containers.recipes.command.config import SECRETS_PREFIX, is_secret, is_variable
from slipway.jobs.code.folder import CannotShip, ProjectFolder
from slipway.jobs.words.job import LONGEST_NAME, DoesNotFit
from slipway.jobs.words.targets import Target
from slipway.jobs.words.text import printable

RECIPE = "command"
_NO_NAME = re.compile(r"[^A-Za-z0-9_-]+")
# AWS Batch would replace it in a command; in JSON the same word has another spelling.
_PLACEHOLDER, _SPELLED_OTHERWISE = "Ref::", "Ref:\\u003a"
_PROMISES_SECRET = re.compile(r".*(KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)", re.IGNORECASE)
_NO_INDEX = re.compile(r"^\s*--no-index\s*$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnCommand:
    """Hold what a person wants to run, beside the folder and the place."""

    words: tuple[str, ...]
    is_per_node: bool = False  # it starts the processes of its node itself
    requirements: str | None = None  # a file of the folder
    environment: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict)  # their names in Secrets Manager, by variable

    def __post_init__(self) -> None:
        _refuse_open_secrets(self.environment)
        _refuse_no_names(self.secrets)


def read_variables(option: str, texts: Sequence[str]) -> dict[str, str]:
    """Split NAME=VALUE texts; refuse a name that is set twice or that ranks are told their place by."""
    found: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or name in found or not is_variable(name):
            why = "is set twice" if name in found else "is no variable that you can set with a value"
            raise DoesNotFit(
                f"{option}: {printable(name)} {why}",
                hint=f"write {option} NAME=VALUE once; names of torchrun's, PATH and SLIPWAY_… are taken",
            )
        found[name] = value
    return found


def _refuse_open_secrets(environment: Mapping[str, str]) -> None:
    """Refuse to write into a job's definition what everybody may read who may list jobs."""
    for name in environment:
        if _PROMISES_SECRET.fullmatch(name):
            raise DoesNotFit(
                f"--env: {name} looks like a secret, and whoever may list jobs could read it",
                hint=f"aws secretsmanager create-secret --name {SECRETS_PREFIX}mine --secret-string "
                f"file://FILE; then --secret {name}=mine",
            )


def _refuse_no_names(secrets: Mapping[str, str]) -> None:
    for variable, name in secrets.items():
        if not is_secret(name.removeprefix(SECRETS_PREFIX)):
            raise DoesNotFit(
                f"--secret: {variable} is to be {printable(name[:60])}, which is no name of a secret",
                hint=f"write --secret {variable}=mine for the secret {SECRETS_PREFIX}mine of Secrets Manager",
            )


def command_settings(command: OwnCommand, source: str) -> dict[str, str]:
    """Return the settings; `source` is where the folder's archive lies."""
    secrets = {each: name.removeprefix(SECRETS_PREFIX) for each, name in command.secrets.items()}
    return {
        "source": source,
        "command": _in_json(command.words),
        **({"per_node": "yes"} if command.is_per_node else {}),
        **({"requirements": command.requirements} if command.requirements else {}),
        **({"environment": _in_json(command.environment)} if command.environment else {}),
        **({"secrets": _in_json(secrets)} if secrets else {}),
    }


def _in_json(value: object) -> str:
    return json.dumps(value).replace(_PLACEHOLDER, _SPELLED_OTHERWISE)


def folder_name(folder: Path) -> str:
    """Return the folder's name as a job may have it."""
    name = _NO_NAME.sub("-", folder.resolve().name).strip("-_")[:LONGEST_NAME]
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
