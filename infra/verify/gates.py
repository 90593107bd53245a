"""Every gate on every template, one line a finding: `python -m slipway.infra.verify [FOLDER OF AN ASSEMBLY]`.

Gates: the CDK's own validator and cdk-nag (both while synthesizing), cfn-lint, and infra/verify/rules.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from slipway.infra.declare.cdk_json import feature_flags
from slipway.infra.verify.rules import RULES
from slipway.jobs.core.errors import SlipwayError, in_lines

# A matter of taste: the CDK writes Fn::Join where cfn-lint prefers Fn::Sub.
_NOT_A_FINDING = ("I1022",)


def main(arguments: Sequence[str]) -> int:
    if arguments:
        return report(Path(arguments[0]))
    with TemporaryDirectory() as folder:
        try:
            synthesize(Path(folder))
        except SlipwayError as error:
            print(in_lines(error), file=sys.stderr)
            return error.exit_code
        return report(Path(folder))


def report(assembly: Path) -> int:
    lines = [*synthesis_findings(assembly), *lint_findings(assembly), *rule_findings(assembly)]
    for line in lines:
        print(line)
    count = len(list(assembly.glob("*.template.json")))
    print(f"gates: {count} templates, {len(lines)} findings", file=sys.stderr)
    return 1 if lines or not count else 0


def synthesize(assembly: Path) -> None:
    """Synthesize in this process, as the CLI would. Findings are left in the assembly's report."""
    import aws_cdk as cdk

    from slipway.infra.app import build
    from slipway.infra.declare.declared import load, load_machine_images

    app = cdk.App(outdir=str(assembly), context=dict(feature_flags()))
    build(app, load({}), load_machine_images())
    try:
        app.synth()
    except RuntimeError:
        if not any(synthesis_findings(assembly)):
            raise


def synthesis_findings(assembly: Path) -> Iterator[str]:
    """Yield errors and warnings; infra/verify/nag.py acknowledges those that are accepted."""
    path = assembly / "validation-report.json"
    if not path.is_file():
        yield f"{path.name}: is missing; synthesize with validation (CDK_VALIDATION is not false)"
        return
    for plugin in json.loads(path.read_text(encoding="utf-8"))["pluginReports"]:
        for violation in plugin["violations"]:
            for construct in violation["violatingConstructs"]:
                where = construct.get("constructPath", plugin["pluginName"])
                yield f"{where}: [{violation['ruleName']}] {violation['description']}"


def lint_findings(assembly: Path) -> Iterator[str]:
    from cfnlint.api import ManualArgs, lint_file

    for path in _templates(assembly):
        arguments = ManualArgs(
            include_checks=["I"], ignore_checks=list(_NOT_A_FINDING), regions=[_region(assembly, path)]
        )
        for match in lint_file(path, config=arguments):
            yield f"{path.name}:{match.linenumber}: [{match.rule.id}] {match.message}"


def rule_findings(assembly: Path) -> Iterator[str]:
    for path in _templates(assembly):
        template = json.loads(path.read_text(encoding="utf-8"))
        for name, rule in RULES.items():
            for finding in rule(template):
                yield f"{path.name}: {finding.where}: [{name}] {finding.message}"


def _region(assembly: Path, template: Path) -> str:
    """Return the template's region: what a resource may be differs between regions."""
    manifest = json.loads((assembly / "manifest.json").read_text(encoding="utf-8"))
    environment = manifest["artifacts"][template.name.removesuffix(".template.json")]["environment"]
    return str(environment).rpartition("/")[2]


def _templates(assembly: Path) -> list[Path]:
    return sorted(assembly.glob("*.template.json"))
