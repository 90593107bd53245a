"""Runs bakes: one thread each, one bake at a time, from PENDING to AVAILABLE, FAILED or CANCELLED."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from slipway.yard.machines import image_store
from slipway.yard.services.imagebuilder.build import bake_roles
from slipway.yard.services.imagebuilder.build.bake_roles import Bake, StepRun, WorkflowRun
from slipway.yard.services.imagebuilder.build.workflows import WORKFLOWS, BakeContext, BakeLog, Workflow
from slipway.yard.services.imagebuilder.components.runner import Cancelled, ComponentStepFailed
from slipway.yard.services.imagebuilder.machine.build_machine import BakedMachine
from slipway.yard.state import remove_tree

log = logging.getLogger(__name__)

LOOK_SECONDS = 0.2
_turn = threading.Lock()


def start(bake: Bake) -> None:
    bake.workflows = [
        WorkflowRun(
            name=workflow.name,
            type=workflow.type,
            steps=[StepRun(name=name, action=action) for name, (action, _) in workflow.steps.items()],
        )
        for workflow in WORKFLOWS
        if bake.plan.runs_tests or workflow.type != "TEST"
    ]
    name = f"bake {bake.plan.name} {bake.plan.version}"
    threading.Thread(target=_bake, args=(bake,), name=name, daemon=True).start()


def cancel(bake: Bake) -> None:
    bake.plan.cancelled.set()


def _bake(bake: Bake) -> None:
    """Run the bake; its final status is set last, when the log is complete and the folder is deleted."""
    plan = bake.plan
    bake_log = BakeLog(plan.log_group, plan.version, plan.region)
    folder = image_store.workshop(plan.arn.rpartition("image/")[2].replace("/", "-"))
    try:
        bake_log.open()
        with _in_turn(plan.cancelled):
            bake.status = "CREATING"
            machine = BakedMachine(folder, plan.region, plan.working_directory, plan.cancelled)
            machine.session = bake_roles.of_machine(plan)
            _workflows(BakeContext(bake=bake, log=bake_log, machine=machine))
        status = "AVAILABLE"
    except Exception as error:  # noqa: BLE001 - the image shows any error
        status = _fail(bake, error)
        bake_log.say(f"{status}: {bake.reason}")
    remove_tree(folder)
    bake.status = status
    bake.ended.set()


def _fail(bake: Bake, error: Exception) -> str:
    """Record why the bake failed or that it was cancelled."""
    context: dict[str, Any] = {"imageStatus": bake.status}
    # Steps that did not run will not run any more.
    ended = "CANCELLED" if bake.plan.cancelled.is_set() else "SKIPPED"
    for run in bake.workflows:
        for step in run.steps:
            step.status = ended if step.status == "PENDING" else step.status
            if step.status == "FAILED":
                context.update(workflowExecutionId=run.id, stepExecutionId=step.id, failedStep=step.name)
        run.status = ended if run.status == "PENDING" else run.status
    if bake.plan.cancelled.is_set() or isinstance(error, Cancelled):
        bake.reason = "cancelled by CancelImageCreation"
        return "CANCELLED"
    log.info("the bake of %s failed", bake.plan.arn, exc_info=True)
    if isinstance(error, ComponentStepFailed):
        context["componentFailure"] = {
            "componentArn": error.component,
            "phaseName": error.phase,
            "stepName": error.step,
            "action": error.action,
            "errorMessage": error.message,
        }
    bake.failure = context
    bake.reason = str(error) or repr(error)
    return "FAILED"


@contextmanager
def _in_turn(cancelled: threading.Event) -> Iterator[None]:
    """Wait until no other bake runs: they would only slow each other down."""
    while not _turn.acquire(timeout=LOOK_SECONDS):
        if cancelled.is_set():
            raise Cancelled
    try:
        yield
    finally:
        _turn.release()


def _workflows(context: BakeContext) -> None:
    known = {workflow.name: workflow for workflow in WORKFLOWS}
    for run in context.bake.workflows:
        workflow = known[run.name]
        context.bake.status = workflow.status
        run.status, run.started = "RUNNING", datetime.now(UTC)
        try:
            for step in run.steps:
                _step(context, workflow, step)
        except Exception:
            run.status = "CANCELLED" if context.bake.plan.cancelled.is_set() else "FAILED"
            raise
        finally:
            run.ended = datetime.now(UTC)
        run.status = "COMPLETED"


def _step(context: BakeContext, workflow: Workflow, step: StepRun) -> None:
    step.status, step.started = "RUNNING", datetime.now(UTC)
    context.log.say(f"{workflow.name}: {step.name}")
    try:
        bake_roles.check(context.bake.plan, step.name)
        workflow.steps[step.name][1](context, step)
    except Exception as error:
        step.status = "CANCELLED" if context.bake.plan.cancelled.is_set() else "FAILED"
        step.message = str(error)[:500]
        raise
    finally:
        step.ended = datetime.now(UTC)
    step.status, step.message = "COMPLETED", ""
