"""Fills in a template's parameters: the result says what a stack should hold, in the order of creation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from slipway.yard.cloudformation.template import intrinsics, references
from slipway.yard.cloudformation.template.parameters import Lookups, Parameter, resolve_dynamic
from slipway.yard.cloudformation.template.references import Reference
from slipway.yard.cloudformation.template.scope import Pending, Scope, fail, pending, waits_for
from slipway.yard.cloudformation.template.template import ResourceDeclaration, Template, deletion_policy


@dataclass(frozen=True, slots=True, kw_only=True)
class StackIdentity:
    """Holds the values of the pseudo parameters: the stack's name, id, account and region."""

    region: str
    account: str
    stack_name: str
    stack_id: str
    notification_arns: tuple[str, ...] = ()

    def pseudo(self) -> dict[str, Any]:
        is_china = self.region.startswith("cn-")
        return {
            "AWS::AccountId": self.account,
            "AWS::NotificationARNs": list(self.notification_arns),
            "AWS::Partition": "aws-cn" if is_china else "aws",
            "AWS::Region": self.region,
            "AWS::StackId": self.stack_id,
            "AWS::StackName": self.stack_name,
            "AWS::URLSuffix": "amazonaws.com.cn" if is_china else "amazonaws.com",
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """A resource as far as it can be known before anything is made."""

    declared: ResourceDeclaration
    properties: Mapping[str, Any]  # a value that depends on another resource is a Pending
    dependencies: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Blueprint:
    """Says what a stack should contain; `resources` is in order, without those whose condition is false."""

    template: Template
    parameters: Mapping[str, Parameter]
    place: StackIdentity
    resources: Mapping[str, Planned]
    outputs: Mapping[str, Any]  # as far as they are known, to tell if an update changes them
    imports: frozenset[str]

    def scope(
        self, lookups: Lookups, resource: Callable[[Reference], Any], imported: Callable[[str], str]
    ) -> Scope:
        """Return the scope for the final evaluation of its expressions."""
        scope = _scope(self.template, self.parameters, self.place, lookups)
        return replace(
            scope,
            resource=resource,
            imported=imported,
            dynamic=lambda text: resolve_dynamic(text, lookups) if "{{resolve:" in text else text,
        )


def _scope(
    template: Template, parameters: Mapping[str, Parameter], place: StackIdentity, lookups: Lookups
) -> Scope:
    return Scope(
        template=template,
        parameters={key: parameter.value for key, parameter in parameters.items()},
        pseudo=place.pseudo(),
        lookups=lookups,
        resource=_wait,
        imported=lambda name: fail(f"No export named {name} found"),
    )


def _wait(reference: Reference) -> Pending:
    name = reference.logical_id
    expression = {"Ref": name} if reference.attribute is None else {"Fn::GetAtt": [name, reference.attribute]}
    return pending(expression, frozenset({reference}))


def draw(
    template: Template,
    parameters: Mapping[str, Parameter],
    place: StackIdentity,
    lookups: Lookups,
    imported: Callable[[str], str],
) -> Blueprint:
    """Return the blueprint; raise ValidationError if an expression cannot be evaluated. Nothing is made."""
    imports: set[str] = set()

    def look_up(name: str) -> str:
        imports.add(name)
        return imported(name)

    scope = replace(_scope(template, parameters, place, lookups), imported=look_up)
    _assert_rules(scope)
    present = {
        name: _decided(declared, scope)
        for name, declared in template.resources.items()
        if declared.condition is None or intrinsics.condition(declared.condition, scope)
    }
    resources = _plan(present, scope)
    outputs = {name: _output(name, raw, scope) for name, raw in present_outputs(scope).items()}
    _refuse_absent(waits_for(outputs), present, "Outputs")
    return Blueprint(
        template=template,
        parameters=parameters,
        place=place,
        resources=resources,
        outputs=outputs,
        imports=frozenset(imports),
    )


def _decided(declared: ResourceDeclaration, scope: Scope) -> ResourceDeclaration:
    """Return the resource with its deletion policies, which intrinsic functions may decide."""
    name = declared.logical_id
    values = {field: intrinsics.evaluate(raw, scope) for field, raw in declared.undecided.items()}
    policies: dict[str, Any] = {field: deletion_policy(name, field, value) for field, value in values.items()}
    return replace(declared, undecided={}, **policies)


def _output(name: str, raw: Mapping[str, Any], scope: Scope) -> Any:
    if "Value" not in raw:
        fail(f"Template format error: Output {name} must have a Value member.")
    wanted = ("Value", "Export", "Description")
    return intrinsics.evaluate({key: raw[key] for key in wanted if key in raw}, scope)


def present_outputs(scope: Scope) -> dict[str, Mapping[str, Any]]:
    """Return the outputs whose condition holds."""
    outputs = scope.template.section("Outputs")
    return {
        name: output
        for name, output in outputs.items()
        if "Condition" not in output or intrinsics.condition(output["Condition"], scope)
    }


def _plan(present: Mapping[str, ResourceDeclaration], scope: Scope) -> dict[str, Planned]:
    planned = {}
    for name, declared in present.items():
        properties = intrinsics.evaluate(dict(declared.properties), scope)
        waits = waits_for(properties)
        _refuse_absent(waits, present, "Resources")
        wanted = {reference.logical_id for reference in waits} | (set(declared.depends_on) & set(present))
        planned[name] = Planned(declared=declared, properties=properties, dependencies=tuple(sorted(wanted)))
    order = references.order({name: one.dependencies for name, one in planned.items()})
    return {name: planned[name] for name in order}


def _refuse_absent(waits: frozenset[Reference], present: Mapping[str, Any], block: str) -> None:
    if absent := sorted({reference.logical_id for reference in waits} - set(present)):
        fail(
            f"Template format error: Unresolved resource dependencies [{', '.join(absent)}] in the {block}"
            " block of the template"
        )


def _assert_rules(scope: Scope) -> None:
    """Check the Rules section; the CDK's rule is about the version of its bootstrap stack."""
    for name, rule in scope.template.section("Rules").items():
        if "RuleCondition" in rule and not rule_holds(rule["RuleCondition"], scope):
            continue
        for assertion in rule.get("Assertions", []):
            if not rule_holds(assertion.get("Assert"), scope):
                reason = assertion.get("AssertDescription", "an assertion failed")
                fail(f"Template validation error: {name}: {reason}")


def rule_holds(value: Any, scope: Scope) -> bool:
    """Evaluate a rule's expression: conditions, and Contains, EachMemberEquals and EachMemberIn."""
    name, argument = next(iter(value.items())) if isinstance(value, dict) and value else ("", [])
    if name in intrinsics.LOGIC:
        return intrinsics.LOGIC[name](rule_holds(item, scope) for item in argument)
    left, right = (
        intrinsics.evaluate(argument, scope) if name in (*MEMBERSHIP, "Fn::Equals") else (None, None)
    )
    if name == "Fn::Equals":
        return bool(left == right)
    if name not in MEMBERSHIP:
        fail(
            f"Template error: the yard does not know {name or value!r} in Rules;"
            f" it knows {', '.join(MEMBERSHIP)}"
        )
    return MEMBERSHIP[name](left, right)


MEMBERSHIP: dict[str, Callable[[Any, Any], bool]] = {
    "Fn::Contains": lambda values, value: value in values,
    "Fn::EachMemberEquals": lambda values, value: all(item == value for item in values),
    "Fn::EachMemberIn": lambda values, allowed: all(item in allowed for item in values),
}
