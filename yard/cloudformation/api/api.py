"""CloudFormation's API in the yard.

To add a call: a function that takes a Call in the file of its kind, and its line in CALLS.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from slipway.yard.cloudformation.api import change_set_commands, commands, reads
from slipway.yard.cloudformation.engine.engine import StackEngine, StackRequest
from slipway.yard.errors import ApiError

PATIENCE_SECONDS = 3.0

CALLS: Mapping[str, Callable[[StackRequest], dict[str, Any]]] = {
    "CancelUpdateStack": commands.cancel_update_stack,
    "ContinueUpdateRollback": commands.continue_update_rollback,
    "CreateChangeSet": change_set_commands.create_change_set,
    "CreateStack": commands.create_stack,
    "DeleteChangeSet": change_set_commands.delete_change_set,
    "DeleteStack": commands.delete_stack,
    "DescribeChangeSet": change_set_commands.describe_change_set,
    "DescribeEvents": reads.describe_events,
    "DescribeStackDriftDetectionStatus": change_set_commands.describe_stack_drift_detection_status,
    "DescribeStackEvents": reads.describe_stack_events,
    "DescribeStackResource": reads.describe_stack_resource,
    "DescribeStackResourceDrifts": change_set_commands.describe_stack_resource_drifts,
    "DescribeStackResources": reads.describe_stack_resources,
    "DescribeStacks": reads.describe_stacks,
    "DetectStackDrift": change_set_commands.detect_stack_drift,
    "DetectStackResourceDrift": change_set_commands.detect_stack_resource_drift,
    "ExecuteChangeSet": change_set_commands.execute_change_set,
    "GetStackPolicy": commands.get_stack_policy,
    "GetTemplate": reads.get_template,
    "GetTemplateSummary": reads.get_template_summary,
    "ListChangeSets": change_set_commands.list_change_sets,
    "ListExports": reads.list_exports,
    "ListHookResults": reads.list_hook_results,
    "ListImports": reads.list_imports,
    "ListStackResources": reads.list_stack_resources,
    "ListStacks": reads.list_stacks,
    "RollbackStack": commands.rollback_stack,
    "SetStackPolicy": commands.set_stack_policy,
    "UpdateStack": commands.update_stack,
    "UpdateTerminationProtection": commands.update_termination_protection,
    "ValidateTemplate": reads.validate_template,
}


def call(operation: str, parameters: Mapping[str, Any], region: str) -> dict[str, Any]:
    """The answer of this process's CloudFormation; an ApiError for what it refuses."""
    return answer(_engine(), operation, parameters, region)


def answer(engine: StackEngine, operation: str, parameters: Mapping[str, Any], region: str) -> dict[str, Any]:
    """The same with an engine of one's own."""
    if operation not in CALLS:
        raise ApiError(
            "InvalidAction", f"The yard's CloudFormation has no {operation}: it knows {', '.join(CALLS)}."
        )
    token = parameters.get("ClientRequestToken") or parameters.get("ClientToken")
    key = (region, operation, str(parameters.get("StackName")), str(token))
    if token and (given := engine.remembered(key)) is not None:
        return given
    given = CALLS[operation](StackRequest(engine=engine, region=region, parameters=parameters))
    if token:
        engine.remember(key, given)
    return given


@lru_cache(maxsize=1)
def _engine() -> StackEngine:
    from slipway.yard.cloudformation.resources.registry import provider
    from slipway.yard.cloudformation.template.parameters import YardLookups
    from slipway.yard.endpoint import ACCOUNT

    return StackEngine(
        providers=provider, lookups=YardLookups, account=ACCOUNT, patience_seconds=PATIENCE_SECONDS
    )


def reset() -> None:
    """Forget every stack and what they recorded; what else they made, its own service forgets."""
    from slipway.yard.cloudformation.resources import recorded

    _engine.cache_clear()
    recorded.reset()


def operations() -> frozenset[str]:
    """List what it answers; the rest is refused."""
    return frozenset(CALLS)
