"""Runs the CDK's command line in the user's project, with its output on stderr."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

from slipway.jobs.output import say
from slipway.jobs.words.errors import SlipwayError
from slipway.jobs.words.installation import find_project


def run_cdk(*arguments: str, again: str, is_silent: bool = False, is_checked: bool = False) -> None:
    """Run `cdk`; `again` is what to type if it fails. With `is_silent`, print its output only then.

    With `is_checked`, templates are checked first, as every deployment needs and no destruction does.
    """
    unchecked = {} if is_checked else {"CDK_VALIDATION": "false"}
    try:
        ran = subprocess.run(
            [find_cdk(), *arguments],
            cwd=find_project().folder,
            env={**os.environ, **unchecked},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if is_silent else sys.__stderr__,  # output for the user
            stderr=subprocess.STDOUT if is_silent else None,
            text=True,
            check=False,
        )
    except KeyboardInterrupt:
        if not is_silent:
            say(f"CloudFormation finishes what cdk {arguments[0]} has begun; then go on: {again}")
        raise
    if ran.returncode:
        print(ran.stdout or "", end="", file=sys.__stderr__)
        raise SlipwayError(
            f"cdk {arguments[0]} ended with {ran.returncode}; slipway cluster list shows what stands",
            hint=f"run it again: {again}",
        )


def find_cdk() -> str:
    cdk = shutil.which("cdk")
    if cdk is None:
        raise SlipwayError(
            "there is no cdk command", hint="npm install -g aws-cdk; a checkout has one in .venv/bin"
        )
    return cdk
