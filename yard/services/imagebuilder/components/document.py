"""Reads a component document of Image Builder into types; refuses members that the yard cannot run.

Its schema: https://docs.aws.amazon.com/imagebuilder/latest/userguide/toe-use-documents.html. To add a member
of a step: a field of ComponentStep and a name in _STEP.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from slipway.jobs.words.images.amis import FROM_VENDOR, ON_HARDWARE
from slipway.yard import bounded_yaml
from slipway.yard.services.imagebuilder.components.actions import ACTIONS, WINDOWS_ACTIONS, BadDocument

TIMEOUT_SECONDS = 7200
# Suffix of a step's name -> why it cannot run outside AWS (infra/components/README.md).
ONLY_ON_AWS: Mapping[str, str] = {
    ON_HARDWARE: "it needs a device or a kernel that only a machine of AWS's has",
    FROM_VENDOR: "it takes what a vendor offers for download, or uses what such a step installed",
}
ON_FAILURE = ("Abort", "Continue", "Ignore")

_DOCUMENT = frozenset({"name", "description", "schemaVersion", "parameters", "constants", "phases"})
_STEP = frozenset({"name", "action", "inputs", "timeoutSeconds", "onFailure", "maxAttempts", "loop"})
_UNUSED = {"if": "conditions", "assert": "assertions"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ComponentStep:
    name: str
    action: str
    inputs: Any
    timeout_seconds: int = TIMEOUT_SECONDS
    on_failure: str = "Abort"
    max_attempts: int = 1
    loop: Mapping[str, Any] | None = None

    @property
    def left_out(self) -> str:
        """Return why the yard leaves the step out; "" if it runs it."""
        return next((why for ending, why in ONLY_ON_AWS.items() if self.name.endswith(ending)), "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    name: str
    phases: Mapping[str, tuple[ComponentStep, ...]]
    constants: Mapping[str, str]
    defaults: Mapping[str, str | None]  # parameter -> default; None: a value is required


def parse(text: str, platform: str = "Linux") -> Document:
    """Return the document; raise BadDocument if the yard could not run it, or, for Windows, not read it."""
    try:
        found = bounded_yaml.load(text)
    except yaml.YAMLError as error:
        raise BadDocument(f"the document cannot be read as YAML: {error}") from None
    if not isinstance(found, dict) or not isinstance(found.get("phases"), list):
        raise BadDocument("the document has no list of phases")
    _refuse_unknown(found, _DOCUMENT, "the document")
    phases = {_name(phase, "a phase"): tuple(_steps(phase, platform)) for phase in found["phases"]}
    if len(phases) != len(found["phases"]):
        raise BadDocument("two phases have the same name")
    return Document(
        name=str(found.get("name", "")),
        phases=phases,
        constants={name: str(given["value"]) for name, given in _declared(found, "constants")},
        defaults={
            name: str(given["default"]) if "default" in given else None
            for name, given in _declared(found, "parameters")
        },
    )


def _declared(found: Mapping[str, Any], what: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield (name, object) of a list of objects with a single key, as parameters and constants are."""
    for entry in found.get(what) or ():
        if not isinstance(entry, dict) or not all(isinstance(given, dict) for given in entry.values()):
            raise BadDocument(f"{what} is no list of `Name: {{type: string, …}}`")
        yield from entry.items()


def _steps(phase: Mapping[str, Any], platform: str) -> Iterator[ComponentStep]:
    seen: set[str] = set()
    for given in phase.get("steps") or ():
        name = _name(given, f"a step of {phase['name']}")
        where = f"step {phase['name']}.{name}"
        if name in seen:
            raise BadDocument(f"{where} is there twice")
        seen.add(name)
        yield _step(given, where, platform)


def _step(given: Mapping[str, Any], where: str, platform: str) -> ComponentStep:
    _refuse_unknown(given, _STEP, where)
    actions = {*ACTIONS, *(WINDOWS_ACTIONS if platform == "Windows" else ())}
    if given.get("action") not in actions:
        known = ", ".join(sorted(actions))
        raise BadDocument(f"{where} has the action {given.get('action')!r}; the yard knows {known}")
    if given.get("onFailure", "Abort") not in ON_FAILURE:
        raise BadDocument(
            f"{where} has onFailure {given['onFailure']!r}; allowed are {', '.join(ON_FAILURE)}"
        )
    timeout = given.get("timeoutSeconds", TIMEOUT_SECONDS)
    if isinstance(timeout, bool) or not isinstance(timeout, int) or timeout < -1 or timeout == 0:
        raise BadDocument(f"{where} has timeoutSeconds {timeout!r}; it must be a whole number above 0, or -1")
    return ComponentStep(
        name=given["name"],
        action=given["action"],
        inputs=given.get("inputs") or {},
        timeout_seconds=86_400 if timeout == -1 else timeout,  # AWS's -1 is no limit
        on_failure=given.get("onFailure", "Abort"),
        max_attempts=max(1, int(given.get("maxAttempts", 1))),
        loop=given.get("loop"),
    )


def _name(given: Any, what: str) -> str:
    if not isinstance(given, dict) or not isinstance(given.get("name"), str) or not given["name"]:
        raise BadDocument(f"{what} has no name")
    return str(given["name"])


def _refuse_unknown(given: Mapping[str, Any], known: frozenset[str], where: str) -> None:
    unknown: Sequence[str] = [name for name in given if name not in known]
    if unknown:
        words = _UNUSED.get(unknown[0])
        why = f"; the yard runs no {words}" if words else f"; known are {', '.join(sorted(known))}"
        raise BadDocument(f"{where} has '{unknown[0]}'{why}")
