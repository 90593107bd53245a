"""Runs the steps of a component's phase as AWSTOE does: with loops, attempts, timeouts and failures."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from slipway.yard.errors import with_texts
from slipway.yard.services.imagebuilder.components.actions import BadDocument, order_of
from slipway.yard.services.imagebuilder.components.document import ComponentStep, Document
from slipway.yard.services.imagebuilder.machine.build_machine import BakedMachine, Say, WrongDownload

REBOOT = 194  # exit code of a script that requests a restart, and is then run again
MOST_REBOOTS = 3


@dataclass(kw_only=True, eq=False)
class ComponentStepFailed(Exception):
    """Says which step failed, in the words of GetImage's failureContext."""

    component: str
    phase: str
    step: str
    action: str
    message: str

    def __str__(self) -> str:
        return f"step {self.phase}.{self.step} ({self.action}) of {self.component} failed: {self.message}"


class Cancelled(Exception):
    """Raised after the bake was cancelled."""


@dataclass(slots=True, kw_only=True)
class Component:
    arn: str
    name: str
    document: Document
    variables: Variables
    left_out: list[str] = field(default_factory=list)  # descriptions of steps that did not run


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
        except (BadDocument, WrongDownload, OSError, ClientError, BotoCoreError) as error:
            message = str(error)
        if not message:
            return None
    return ComponentStepFailed(
        component=component.arn, phase=phase, step=step.name, action=step.action, message=message
    )


def _rounds(component: Component, phase: str, step: ComponentStep, machine: BakedMachine, say: Say) -> str:
    """Run all rounds of the step; return why one failed, or ""."""
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
        if done.timed_out:
            return f"it took more than {step.timeout_seconds} s"
        if done.code:
            last = done.output.strip().splitlines()[-1:]
            return f"exit code {done.code}" + (f": {last[0]}" if last else "")
        outputs.append(done.output)
    component.variables.record(phase, step.name, inputs, {"stdout": "\n".join(outputs)})
    return ""


def _leave_out(component: Component, where: str, why: str, say: Say) -> None:
    component.left_out.append(f"{where}: {why}")
    say(f"{where}: left out: {why}")


# `{{ … }}` in a component document: parameters, constants, loop variables, and outputs of earlier steps.
# https://docs.aws.amazon.com/imagebuilder/latest/userguide/toe-user-defined-variables.html. An unknown name
# is refused: AWS would keep the braces, and the step would fail later.
_REFERENCE = re.compile(r"\{\{\s*([\w.:\-\[\]]+)\s*\}\}")
_INDEX = re.compile(r"^(\w[\w-]*)\[(\d+)\]$")


class Variables:
    """The variables of one component; each step adds its outputs."""

    def __init__(self, document: Document, given: Mapping[str, str]) -> None:
        unknown = [name for name in given if name not in document.defaults]
        if unknown:
            known = ", ".join(document.defaults) or "none"
            raise BadDocument(f"{document.name} has no parameter {unknown[0]}; it has {known}")
        values = {**document.defaults, **given}
        missing = [name for name, value in values.items() if value is None]
        if missing:
            raise BadDocument(f"{document.name} needs a value for its parameter {missing[0]}")
        self._document = document.name
        self._plain: dict[str, str] = {**document.constants, **{k: str(v) for k, v in values.items()}}
        self._steps: dict[str, dict[str, Any]] = {}

    def record(self, phase: str, step: str, inputs: Any, outputs: Mapping[str, str]) -> None:
        self._steps[f"{phase}.{step}"] = {"inputs": inputs, "outputs": outputs}

    def expand(self, value: Any, loop: Mapping[str, str]) -> Any:
        """Return the value with all references in its strings replaced."""
        return with_texts(
            value, lambda text: _REFERENCE.sub(lambda found: self._look_up(found[1], loop), text)
        )

    def _look_up(self, name: str, loop: Mapping[str, str]) -> str:
        for values in (loop, self._plain):
            if name in values:
                return values[name]
        path = name.removeprefix(f"{self._document}.").split(".", 2)
        value: Any = self._steps.get(".".join(path[:2])) if len(path) == 3 else None
        for part in path[2].split(".") if value is not None else ():
            value = _member(value, part)
        if value is None or isinstance(value, dict | list):
            raise BadDocument(f"nothing is called '{{{{ {name} }}}}' here")
        return str(value)


def rounds(loop: Mapping[str, Any] | None) -> Iterator[Mapping[str, str]]:
    """Yield the loop variables of each round; without a loop, one round without variables."""
    if loop is None:
        yield {}
        return
    name = str(loop.get("name", "loop"))
    for number, value in enumerate(_values(loop)):
        found = {"index": value if "for" in loop else str(number), "value": value}
        yield {f"{prefix}.{part}": text for prefix in ("loop", name) for part, text in found.items()}


def _values(loop: Mapping[str, Any]) -> list[str]:
    if "for" in loop:
        spec = {name: int(loop["for"][name]) for name in ("start", "end", "updateBy")}
        if spec["updateBy"] == 0:
            raise BadDocument("a loop with updateBy 0 never ends")
        beyond = 1 if spec["updateBy"] > 0 else -1  # AWS's loops include the end
        return [str(n) for n in range(spec["start"], spec["end"] + beyond, spec["updateBy"])]
    each = loop.get("forEach")
    if isinstance(each, dict):
        return [part.strip() for part in str(each["list"]).split(str(each.get("delimiter", ",")))]
    if isinstance(each, list):
        return [str(item) for item in each]
    raise BadDocument("a loop has neither `for` nor `forEach`")


def _member(value: Any, part: str) -> Any:
    """Return the member `name`, or for `name[0]` the list's item."""
    if isinstance(value, dict) and part in value:
        return value[part]
    indexed = _INDEX.match(part)
    if indexed and isinstance(value, dict) and isinstance(value.get(indexed[1]), list):
        items = value[indexed[1]]
        return items[int(indexed[2])] if int(indexed[2]) < len(items) else None
    return None
