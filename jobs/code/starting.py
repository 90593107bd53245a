"""Starts a project: writes the files of template/ with the cluster's name in place of the template's.

A new file of every project is a file of template/; hidden ones are listed in _HIDDEN.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path

from slipway.jobs.words.errors import SlipwayError
from slipway.jobs.words.names import NAMES_ALLOWED, is_cluster_name

FILES = ("README.md", "cdk.json", "clusters.py", "gitignore", "recipes/sine.py", "train.py")
# Stored in the template under another name, because tools would obey it where it is.
_HIDDEN = {"gitignore": ".gitignore"}
_CLUSTER = "my-cluster"
_PROJECT = "my-cluster-000000"
_LONGEST_BEGINNING = 57  # of a project's name: 64 characters, less a hyphen and six digits


def cluster_name_of(folder: Path, name: str | None) -> str:
    """Return the requested name, or the folder's own, if a cluster can have it."""
    chosen = folder.resolve().name if name is None else name
    if not is_cluster_name(chosen):
        raise SlipwayError(
            f"{chosen!r} cannot be the name of a cluster; allowed are {NAMES_ALLOWED}",
            hint=f"slipway init {shlex.quote(str(folder))} --name NAME",
        )
    return chosen


def build_files(cluster: str, unique: str) -> Mapping[str, str]:
    """Return the texts of a new project by file name; `unique` ends its name and no other project's."""
    template = files("slipway.jobs.code").joinpath("template")
    project = f"{cluster[:_LONGEST_BEGINNING].rstrip('-')}-{unique}"
    return {
        _HIDDEN.get(name, name): template.joinpath(name)
        .read_text(encoding="utf-8")
        .replace(_PROJECT, project)
        .replace(_CLUSTER, cluster)
        for name in FILES
    }


def write_project(folder: Path, texts: Mapping[str, str]) -> None:
    """Write the files into a folder that may hold others, and overwrite nothing."""
    if folder.exists() and not folder.is_dir():
        raise SlipwayError(f"{folder} is no folder", hint="name another: slipway init FOLDER")
    taken = [name for name in texts if (folder / name).exists() or (folder / name).is_symlink()]
    if taken:
        raise SlipwayError(
            f"{folder} already has {', '.join(taken)}, and nothing is overwritten",
            hint="name an empty folder: slipway init FOLDER",
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            (folder / name).parent.mkdir(exist_ok=True)
            with (folder / name).open("x", encoding="utf-8") as file:
                file.write(text)
    except OSError as error:
        raise SlipwayError(
            f"{folder} cannot be written: {error.strerror}",
            hint="name a folder that you can write: slipway init FOLDER",
        ) from None
