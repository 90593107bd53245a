"""Runs every gate on every template, one line for each finding: `python -m slipway.infra.verify [ASSEMBLY]`.

ASSEMBLY is the folder of one. Gates: the CDK's own validator and cdk-nag (both during synthesis), cfn-lint,
and infra/verify/rules. Our own clusters must also pass more packs of cdk-nag (packs.py). In the assembly of a
user's own app, gates look only at the stacks that `add_cluster` made.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from slipway.infra.declare.cdk_json import feature_flags
from slipway.infra.verify.rules import RULES
from slipway.jobs.words.errors import SlipwayError, in_lines
from slipway.jobs.words.names import STACK_MARK

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
    count = len(_templates(assembly))
    print(f"gates: {count} templates, {len(lines)} findings", file=sys.stderr)
    return 1 if lines or not count else 0


def synthesize(assembly: Path) -> None:
    """Synthesize in this process, as the CLI would. Findings are in the assembly's report."""
    import aws_cdk as cdk

    from slipway.infra.app import build
    from slipway.infra.declare.declared import load, load_machine_images
    from slipway.infra.verify.packs import add_packs

    app = cdk.App(outdir=str(assembly), context=dict(feature_flags()))
    build(app, load({}), load_machine_images())
    add_packs(app)
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
    ours = tuple(f"{stack}/" for stack in _our_stacks(assembly).values())
    for plugin in json.loads(path.read_text(encoding="utf-8"))["pluginReports"]:
        for violation in plugin["violations"]:
            for construct in violation["violatingConstructs"]:
                where = construct.get("constructPath", plugin["pluginName"])
                if ours and "constructPath" in construct and not f"{where}/".startswith(ours):
                    continue
                yield f"{where}: [{violation['ruleName']}] {violation['description']}"


def lint_findings(assembly: Path) -> Iterator[str]:
    from cfnlint.api import ManualArgs, lint_file

    for path in _templates(assembly):
        manifest = json.loads((path.parent / "manifest.json").read_text(encoding="utf-8"))
        environment = str(manifest["artifacts"][_artifact(path)]["environment"])
        region = environment.rpartition("/")[2]  # valid values of a resource differ between regions
        arguments = ManualArgs(include_checks=["I"], ignore_checks=list(_NOT_A_FINDING), regions=[region])
        for match in lint_file(path, config=arguments):
            yield f"{path.name}:{match.linenumber}: [{match.rule.id}] {match.message}"


def rule_findings(assembly: Path) -> Iterator[str]:
    for path in _templates(assembly):
        template = json.loads(path.read_text(encoding="utf-8"))
        for name, rule in RULES.items():
            for finding in rule(template):
                yield f"{path.name}: {finding.where}: [{name}] {finding.message}"


def _templates(assembly: Path) -> list[Path]:
    """Return our own templates if some are marked, and otherwise all: older assemblies mark none."""
    found = sorted(assembly.rglob("*.template.json"))
    ours = _our_stacks(assembly)
    return [path for path in found if path in ours] if ours else found


def _our_stacks(assembly: Path) -> Mapping[Path, str]:
    """Return, by template, the path of each construct that is a stack of ours."""
    found: dict[Path, str] = {}
    for template in assembly.rglob("*.template.json"):
        metadata = template.with_name(f"{_artifact(template)}.metadata.json")
        if metadata.is_file():
            marked = json.loads(metadata.read_text(encoding="utf-8"))
            for path, entries in marked.items():
                if any(entry["type"] == STACK_MARK for entry in entries):
                    found[template] = path.lstrip("/")
    return found


def _artifact(template: Path) -> str:
    return template.name.removesuffix(".template.json")
