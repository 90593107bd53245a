"""All that a call needs: its own action on each resource, keys that are used in its name, roles it passes.

Most follows from AWS's reference and from the parameters. A service with rules of its own is a line of _OWN;
an operation whose action has another name is one of ACTIONS.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from slipway.yard.permissions.calls import ec2, encrypted, passing, s3
from slipway.yard.permissions.calls.arns import named, prefix, resource_types
from slipway.yard.permissions.calls.asked import ActionNeed, AskedCall, NotJudged, found
from slipway.yard.permissions.calls.ec2 import value_keys

# Nobody needs a permission for these (STS API reference).
FREE = frozenset({("sts", "GetCallerIdentity"), ("sts", "GetSessionToken")})
ACTIONS: Mapping[tuple[str, str], str] = {
    ("budgets", "CreateBudget"): "budgets:ModifyBudget",
    ("budgets", "DeleteBudget"): "budgets:ModifyBudget",
    ("budgets", "DescribeBudget"): "budgets:ViewBudget",
    ("budgets", "DescribeBudgets"): "budgets:ViewBudget",
    ("budgets", "UpdateBudget"): "budgets:ModifyBudget",
    ("lambda", "Invoke"): "lambda:InvokeFunction",
}
# These may leave out what they are about, and then need the action on "*".
_SEARCHES = ("Describe", "Get", "List", "Search", "Filter")
_OWN: Mapping[str, Callable[[AskedCall], Iterator[ActionNeed]]] = {"ec2": ec2.needs, "s3": s3.needs}


def needs(call: AskedCall) -> tuple[ActionNeed, ...]:
    """Return everything that the call needs; raise NotJudged where the tables do not say."""
    if (call.service, call.operation) in FREE:
        return ()
    direct = _OWN.get(call.service, _of_reference)(call)
    return (*direct, *encrypted.needs(call), *passing.needs(call))


def _of_reference(call: AskedCall) -> Iterator[ActionNeed]:
    action_prefix = prefix(call.service)
    action = ACTIONS.get((call.service, call.operation), f"{action_prefix}:{call.operation}")
    types = resource_types(action)
    if types is None:
        raise NotJudged
    keys = value_keys(call, action_prefix)
    resources = list(dict.fromkeys(arn for kind in types for arn in named(call, action_prefix, kind)))
    if not resources and types and not call.operation.startswith(_SEARCHES) and not _is_create(call):
        raise NotJudged
    for resource in resources or ["*"]:
        yield ActionNeed(action=action, resource=resource, keys=keys)


def _is_create(call: AskedCall) -> bool:
    """Take a resource without a name as not made yet: AWS asks for "*", or for a pattern of the type."""
    return call.operation.startswith(("Create", "Register", "Send")) and not found(call.parameters, "Name")
