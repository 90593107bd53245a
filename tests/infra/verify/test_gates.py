"""One command checks every template with every gate, and prints one line for each finding."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import aws_cdk as cdk
import pytest

from slipway.infra.app import build
from slipway.infra.declare.cdk_json import feature_flags
from slipway.infra.verify import packs
from slipway.infra.verify.gates import lint_findings, report, rule_findings, synthesis_findings, synthesize
from tests.infra.synthesis import CLUSTER

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def assembly(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("assembly")
    app = cdk.App(outdir=str(folder), context=dict(feature_flags()))
    build(app, [CLUSTER])
    app.synth()
    return folder


def spoiled(assembly: Path, folder: Path, *, old: str, new: str) -> Path:
    """Return the assembly's compute template with one text replaced."""
    for name in ("manifest.json", "validation-report.json", "dl1.template.json"):
        text = (assembly / name).read_text(encoding="utf-8")
        (folder / name).write_text(text, encoding="utf-8")
    assert old in text
    (folder / name).write_text(text.replace(old, new, 1), encoding="utf-8")
    return folder


@pytest.mark.long  # scripts/check does the same
def test_the_clusters_we_ship_pass_every_gate_with_the_cdks_own_validator() -> None:
    without = {key: value for key, value in os.environ.items() if key != "CDK_VALIDATION"}
    command = [sys.executable, "-m", "slipway.infra.verify"]
    done = subprocess.run(command, cwd=ROOT, env=without, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")
    assert re.fullmatch(r"gates: [1-9]\d* templates, 0 findings\n", done.stderr)


@pytest.mark.long  # a whole synthesis; the daily run tests the packs themselves in test_nag.py
def test_the_clusters_we_ship_are_held_against_every_pack(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packs, "is_accepted_in_pack", lambda *_: False)
    synthesize(tmp_path)
    lines = list(synthesis_findings(tmp_path))
    assert all(any(f"[{pack}-" in line for line in lines) for pack in packs.PACKS)


def test_what_cfn_lint_finds_is_one_line_with_its_place(assembly: Path, tmp_path: Path) -> None:
    folder = spoiled(assembly, tmp_path, old='"MANAGED"', new='"MANAGD"')
    (line, *_) = lint_findings(folder)
    assert line.startswith("dl1.template.json:")
    assert "[E3030] 'managd' is not one of" in line


def test_what_our_rules_find_is_one_line_with_its_place(
    assembly: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = spoiled(assembly, tmp_path, old='"InterfaceType": "efa"', new='"InterfaceType": "efax"')
    lines = list(rule_findings(folder))
    assert any("[efa-interfaces] InterfaceType is efax" in line for line in lines)
    assert report(folder) == 1
    printed = capsys.readouterr()
    assert printed.out.splitlines() == lines


def test_an_assembly_that_was_not_validated_does_not_pass(tmp_path: Path) -> None:
    assert "is missing" in next(synthesis_findings(tmp_path))
    assert report(tmp_path) == 1


def test_what_synthesis_found_is_one_line_with_its_place(tmp_path: Path) -> None:
    violation = {
        "ruleName": "F3002",
        "description": "wrong",
        "violatingConstructs": [{"constructPath": "dl1/Pool"}],
    }
    recorded = {"pluginReports": [{"pluginName": "CloudFormation Validate", "violations": [violation]}]}
    (tmp_path / "validation-report.json").write_text(json.dumps(recorded), encoding="utf-8")
    assert list(synthesis_findings(tmp_path)) == ["dl1/Pool: [F3002] wrong"]
