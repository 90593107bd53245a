"""The steps of a phase of a component, as AWSTOE runs them: loops, attempts, timeouts, what fails what."""

from __future__ import annotations

import urllib.error
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from botocore.exceptions import BotoCoreError, ClientError

from slipway.yard.services.imagebuilder.components.actions import order_of
from slipway.yard.services.imagebuilder.components.document import ComponentStep, Document
from slipway.yard.services.imagebuilder.components.errors import BadDocument
from slipway.yard.services.imagebuilder.components.variables import Variables, rounds
from slipway.yard.services.imagebuilder.machine.build_machine import BakedMachine, Say
from slipway.yard.services.imagebuilder.machine.downloads import WrongDownload

REBOOT = 194  # with it a script asks for a restart, and is then run again
MOST_REBOOTS = 3


@dataclass(kw_only=True, eq=False)
class ComponentStepFailed(Exception):
    """Says in the words of GetImage's failureContext which step failed."""

    component: str
    phase: str
    step: str
    action: str
    message: str

    def __str__(self) -> str:
        return f"step {self.phase}.{self.step} ({self.action}) of {self.component} failed: {self.message}"


class Cancelled(Exception):
    """Somebody cancelled the bake."""


@dataclass(slots=True, kw_only=True)
class Component:
    arn: str
    name: str
    document: Document
    variables: Variables
    left_out: list[str] = field(default_factory=list)  # of its steps, in words

    @classmethod
    def of(cls, arn: str, name: str, document: Document, given: Mapping[str, str]) -> Component:
        return cls(arn=arn, name=name, document=document, variables=Variables(document, given))


def run_phase(
    component: Component, phase: str, machine: BakedMachine, say: Say, is_cancelled: Callable[[], bool]
) -> None:
    failure: ComponentStepFailed | None = None
    for step in component.document.phases.get(phase, ()):
        where = f"{component.name} {phase}.{step.name}"
        if step.left_out:
            _leave_out(component, where, step.left_out, say)
            continue
        say(f"{where}: {step.action}")
        failed = _step(component, phase, step, machine, say)
        if is_cancelled():
            raise Cancelled
        if failed is None:
            continue
        say(f"{where}: failed: {failed.message}" + (" (ignored)" if step.on_failure == "Ignore" else ""))
        if step.on_failure == "Abort":
            raise failed
        failure = failure or (failed if step.on_failure == "Continue" else None)
    if failure:
        raise failure


def _step(
    component: Component, phase: str, step: ComponentStep, machine: BakedMachine, say: Say
) -> ComponentStepFailed | None:
    message = ""
    for attempt in range(step.max_attempts):
        if attempt:
            say(f"{component.name} {phase}.{step.name}: attempt {attempt + 1} of {step.max_attempts}")
        try:
            message = _rounds(component, phase, step, machine, say)
        except (
            BadDocument,
            WrongDownload,
            OSError,
            urllib.error.URLError,
            ClientError,
            BotoCoreError,
        ) as error:
            message = str(error)
        if not message:
            return None
    return ComponentStepFailed(
        component=component.arn, phase=phase, step=step.name, action=step.action, message=message
    )


def _rounds(component: Component, phase: str, step: ComponentStep, machine: BakedMachine, say: Say) -> str:
    """Why a round of the step failed; "" when all went well."""
    outputs: list[str] = []
    inputs = step.inputs
    for loop in rounds(component.variables.expand(step.loop, {})):
        inputs = component.variables.expand(step.inputs, loop)
        order = order_of(step.action, inputs)
        if order.left_out:
            _leave_out(component, f"{component.name} {phase}.{step.name}", order.left_out, say)
            continue
        for _ in range(MOST_REBOOTS):
            done = machine.run(order, step.timeout_seconds, say)
            if done.code != REBOOT:
                break
            say("it asks for a restart: nothing is restarted here, the step runs again")
        if done.code or done.timed_out:
            return (
                f"it took more than {step.timeout_seconds} s"
                if done.timed_out
                else _why(done.code, done.output)
            )
        outputs.append(done.output)
    component.variables.record(phase, step.name, inputs, {"stdout": "\n".join(outputs)})
    return ""


def _why(code: int, output: str) -> str:
    last = output.strip().splitlines()[-1:]
    return f"exit code {code}" + (f": {last[0]}" if last else "")


def _leave_out(component: Component, where: str, why: str, say: Say) -> None:
    component.left_out.append(f"{where}: {why}")
    say(f"{where}: left out: {why}")
