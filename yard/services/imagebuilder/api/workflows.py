"""Image Builder's workflows: the progress of a bake. Every image has AWS's own three workflows.

To add an operation: a function and its line in _OPERATIONS, and its name in yard/services/registry.py.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from slipway.yard.services.imagebuilder.api.definitions import iso, missing
from slipway.yard.services.imagebuilder.api.images import bakes, image
from slipway.yard.services.imagebuilder.build.bake_roles import Bake, WorkflowRun
from slipway.yard.services.recorded import paged

Parameters = Mapping[str, Any]


def call(operation: str, parameters: Parameters, region: str) -> dict[str, Any]:
    return {"requestId": str(uuid.uuid4()), **_OPERATIONS[operation](parameters, region)}


def _list_workflows(parameters: Parameters, region: str) -> dict[str, Any]:
    record = image(parameters)
    found = [_workflow(run, region) for run in bakes[record.arn].workflows]
    return {"imageBuildVersionArn": record.arn, **paged("workflowExecutions", found, parameters)}


def _get_workflow(parameters: Parameters, region: str) -> dict[str, Any]:
    bake, run = _run(parameters["workflowExecutionId"])
    return {**_workflow(run, region), "imageBuildVersionArn": bake.plan.arn}


def _list_steps(parameters: Parameters, region: str) -> dict[str, Any]:
    bake, run = _run(parameters["workflowExecutionId"])
    shown = [
        {
            "stepExecutionId": step.id,
            "name": step.name,
            "action": step.action,
            "status": step.status,
            **({"message": step.message} if step.message else {}),
            **_times(step.started, step.ended),
        }
        for step in run.steps
        if step.started
    ]
    return {
        "workflowExecutionId": run.id,
        "workflowBuildVersionArn": _workflow(run, region)["workflowBuildVersionArn"],
        "imageBuildVersionArn": bake.plan.arn,
        **paged("steps", shown, parameters),
    }


def _run(identifier: str) -> tuple[Bake, WorkflowRun]:
    for bake in bakes.values():
        for run in bake.workflows:
            if run.id == identifier:
                return bake, run
    raise missing(identifier)


def _workflow(run: WorkflowRun, region: str) -> dict[str, Any]:
    arn = f"arn:aws:imagebuilder:{region}:aws:workflow/{run.type.lower()}/{run.name}/1.0.0/1"
    return {
        "workflowExecutionId": run.id,
        "workflowBuildVersionArn": arn,
        "type": run.type,
        "status": run.status,
        "totalStepCount": len(run.steps),
        "totalStepsSucceeded": run.count("COMPLETED"),
        "totalStepsFailed": run.count("FAILED"),
        "totalStepsSkipped": run.count("SKIPPED"),
        **_times(run.started, run.ended),
    }


def _times(started: datetime | None, ended: datetime | None) -> dict[str, str]:
    moments = {"startTime": started, "endTime": ended}
    return {name: iso(moment) for name, moment in moments.items() if moment}


_OPERATIONS: Mapping[str, Callable[[Parameters, str], dict[str, Any]]] = {
    "GetWorkflowExecution": _get_workflow,
    "ListWorkflowExecutions": _list_workflows,
    "ListWorkflowStepExecutions": _list_steps,
}
