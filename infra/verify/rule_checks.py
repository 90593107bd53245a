"""Runs our rules on stacks of an app during synthesis, for users who do not run `slipway.infra.verify`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import aws_cdk as cdk
import jsii

from slipway.infra.verify.rules import RULES


@jsii.implements(cdk.IPolicyValidationPlugin)
class RuleChecks:
    """Runs RULES on the templates of these stacks."""

    def __init__(self, stacks: Sequence[cdk.Stack]) -> None:
        self._files = {stack.template_file for stack in stacks}

    @property
    def name(self) -> str:
        return "slipway"

    @property
    def rule_ids(self) -> list[str]:
        return list(RULES)

    @property
    def version(self) -> None:
        return None

    def validate(self, context: cdk.IPolicyValidationContext) -> cdk.PolicyValidationPluginReport:
        paths = [Path(path) for path in context.template_paths]
        found = [
            violation for path in paths if path.name in self._files for violation in self._violations(path)
        ]
        return cdk.PolicyValidationPluginReport(success=not found, violations=found)

    def _violations(self, path: Path) -> Iterator[cdk.PolicyViolation]:
        template = json.loads(path.read_text(encoding="utf-8"))
        for name, rule in RULES.items():
            for finding in rule(template):
                resource = cdk.PolicyViolatingResource(
                    resource_logical_id=finding.where, template_path=str(path), locations=[]
                )
                yield cdk.PolicyViolation(
                    rule_name=name, description=finding.message, violating_resources=[resource]
                )


def add_rule_checks(scope: cdk.Stage, stacks: Sequence[cdk.Stack]) -> None:
    """Fail synthesis on every finding of our rules in these stacks."""
    cdk.Validations.of(scope).add_plugins(RuleChecks(stacks))
