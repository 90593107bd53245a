"""Measure synthesis against an app that only copies the same resources.

Ours reads declarations, checks them and composes; the bare app reads our finished templates and hands each
resource to the CDK unchanged. Neither validates: a separate row shows the cost of validation.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from scripts.benchmark_rows import ROOT, Row, compare, side_by_side

# A separate program, since our scripts do not import the CDK; its argument is the folder of the templates.
BARE_APP = """
import json, pathlib, sys
from aws_cdk import App, CfnResource, Stack
app = App()
for path in sorted(pathlib.Path(sys.argv[1]).glob("*.template.json")):
    stack = Stack(app, path.name.removesuffix(".template.json"))
    for name, resource in json.loads(path.read_text(encoding="utf-8"))["Resources"].items():
        CfnResource(stack, name, type=resource["Type"], properties=resource.get("Properties"))
app.synth()
"""
# The commands of the two cdk.json.
OURS = [sys.executable, "-m", "slipway.infra"]
OF_A_PROJECT = [sys.executable, "-P", "-m", "slipway.infra"]
GOAL = "ratio under 2.5"


def synth() -> list[Row]:
    with tempfile.TemporaryDirectory() as name:
        project = Path(name) / "my-training"
        subprocess.run(["slipway", "init", project], check=True, stdout=subprocess.DEVNULL)
        return [
            beside_bare_resources("synth of all stacks", OURS, ROOT),
            beside_bare_resources("synth of a new project", OF_A_PROJECT, project),
            with_validation("the new project, validated", OF_A_PROJECT, project),
        ]


def beside_bare_resources(what: str, ours: Sequence[str], project: Path) -> Row:
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as templates:
        environment = as_the_cdk(project, folder)
        subprocess.run(
            ours, cwd=project, env={**os.environ, **environment, "CDK_OUTDIR": templates}, check=True
        )
        bare = [sys.executable, "-c", BARE_APP, templates]
        seconds, seconds_of_bare = side_by_side(ours, bare, environment, project)
        what = f"{what}, {resources(Path(templates))} resources"
    return compare(what, seconds, "bare resources", seconds_of_bare, goal=GOAL)


def with_validation(what: str, ours: Sequence[str], project: Path) -> Row:
    """Measure synthesis with validation, as `cdk deploy` runs it: cdk-nag's rules and the CDK's own."""
    with tempfile.TemporaryDirectory() as folder:
        validated = ["env", "--unset=CDK_VALIDATION", *ours]
        seconds, without = side_by_side(validated, ours, as_the_cdk(project, folder), project)
    return compare(what, seconds, "the same without", without, goal="")


def as_the_cdk(project: Path, folder: str) -> Mapping[str, str]:
    """Return the environment that the CDK's command line gives an app, with validation off."""
    context = json.loads((project / "cdk.json").read_text(encoding="utf-8"))["context"]
    return {"CDK_VALIDATION": "false", "CDK_OUTDIR": folder, "CDK_CONTEXT_JSON": json.dumps(context)}


def resources(templates: Path) -> int:
    found = [json.loads(path.read_text(encoding="utf-8")) for path in templates.glob("*.template.json")]
    return sum(len(template["Resources"]) for template in found)
