"""Says which project a command works for, where that is not the current folder."""

from __future__ import annotations

from pathlib import Path

from slipway.jobs.output import say
from slipway.jobs.words.installation import NoProject, find_project


def say_project() -> None:
    try:
        folder = find_project().folder
    except NoProject:
        return  # who needs one refuses in better words
    if folder != Path.cwd():
        say(f"project: {folder}")
