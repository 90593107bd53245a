"""Checks AWSTOE documents before Image Builder runs them: known actions, correct shell, verified downloads.

An action that a component may use is one row of ACTIONS; all of them are at
https://docs.aws.amazon.com/imagebuilder/latest/userguide/toe-action-modules.html.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

LONGEST = 16_000  # characters of a component's data, CreateComponent of the Image Builder API reference
PHASES = ("build", "validate", "test")
ON_FAILURE = frozenset({"Abort", "Continue", "Ignore"})
REFERENCE = re.compile(r"\{\{\s*([^}]*?)\s*\}\}")
_STEP = frozenset({"name", "action", "inputs", "onFailure", "timeoutSeconds", "maxAttempts"})
_DOCUMENT = frozenset({"name", "description", "schemaVersion", "parameters", "phases"})
_NAME = re.compile(r"[A-Z][A-Za-z0-9]{0,126}")
_FIRST_LINE = "set -euo pipefail\n"
_FETCHES = re.compile(r"(?m)(^|[;&|(\s])(curl|wget)\s")
_VERIFIES = ("slipway-trust-key", "slipway-check-sha256", "gpgv")

Document = Mapping[str, Any]  # YAML of any shape
Step = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    required: frozenset[str]
    optional: frozenset[str] = frozenset()


# Fields of each entry, for actions whose inputs are a list.
ACTIONS: Mapping[str, Action] = {
    "CreateFile": Action(
        required=frozenset({"path", "content"}),
        optional=frozenset({"permissions", "owner", "group", "overwrite"}),
    ),
    "ExecuteBash": Action(required=frozenset({"commands"})),
    "S3Download": Action(
        required=frozenset({"source", "destination"}),
        optional=frozenset({"overwrite", "expectedBucketOwner"}),
    ),
    "WebDownload": Action(
        required=frozenset({"source", "destination"}),
        optional=frozenset({"overwrite", "checksum", "algorithm"}),
    ),
}


def steps_of(document: Document) -> Iterator[tuple[str, Step]]:
    for phase in document.get("phases", ()):
        yield from ((phase["name"], step) for step in phase.get("steps", ()))


def commands_of(step: Step) -> tuple[str, ...]:
    inputs = step.get("inputs", {})
    return tuple(inputs.get("commands", ())) if isinstance(inputs, Mapping) else ()


def mistakes(name: str, text: str, document: Document) -> Iterator[str]:
    """Yield everything that is wrong with the component `name`, in words."""
    if len(text) > LONGEST:
        yield f"has {len(text)} characters; Image Builder takes {LONGEST} in a component: split it"
    if document.get("name") != name or document.get("schemaVersion") != 1.0:
        yield f"must say name: {name} and schemaVersion: 1.0"
    for unknown in sorted(document.keys() - _DOCUMENT):
        yield f"has the unknown {unknown}; known are {', '.join(sorted(_DOCUMENT))}"
    yield from _wrong_phases(document)
    declared = {each for parameter in document.get("parameters", ()) for each in parameter}
    used = set(REFERENCE.findall(text))
    for parameter in sorted(used - declared):
        yield f"uses {parameter} and declares no such parameter"
    for parameter in sorted(declared - used):
        yield f"declares the parameter {parameter} and never uses it"
    steps = [step for _, step in steps_of(document)]
    for step in steps:
        yield from (f"{step.get('name')}: {said}" for said in _wrong_step(step))
    yield from _unverified(steps)


def _wrong_phases(document: Document) -> Iterator[str]:
    found = [phase.get("name") for phase in document.get("phases", ())]
    if found != [each for each in PHASES if each in found]:
        yield f"has the phases {found}; they are build, validate and test, in that order and once each"
    for needed in ("build", "test"):
        if needed not in found:
            yield f"has no {needed} phase; every component builds something and tests it"
    for phase in document.get("phases", ()):
        steps = [step.get("name") for step in phase.get("steps", ())]
        if len(steps) != len(set(steps)):
            yield f"has two steps of one name in {phase.get('name')}"
    for name in (step.get("name") for _, step in steps_of(document)):
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            yield f"has the step {name!r}; a step's name is letters and digits that begin with a capital"


def _wrong_step(step: Step) -> Iterator[str]:
    for unknown in sorted(step.keys() - _STEP):
        yield f"has the unknown {unknown}; known are {', '.join(sorted(_STEP))}"
    if step.get("onFailure") not in ON_FAILURE:
        yield f"says onFailure: {step.get('onFailure')}; allowed are {', '.join(sorted(ON_FAILURE))}"
    action = ACTIONS.get(str(step.get("action")))
    if action is None:
        yield f"has the action {step.get('action')}; allowed are {', '.join(ACTIONS)}"
        return
    inputs = step.get("inputs", {})
    for entry in inputs if isinstance(inputs, list) else [inputs]:
        yield from (f"lacks the input {each}" for each in sorted(action.required - entry.keys()))
        unknown = entry.keys() - action.required - action.optional
        yield from (f"has the unknown input {each}" for each in sorted(unknown))
    # Check that commands stop at their first failure: AWSTOE would report only the last one's.
    commands = commands_of(step)
    if step.get("action") == "ExecuteBash" and len(commands) != 1:
        yield f"has {len(commands)} commands; write one, of many lines"
    for command in commands:
        if not command.startswith(_FIRST_LINE):
            yield "must begin with set -euo pipefail, or a failure in the middle goes unseen"
        if _FETCHES.search(command):
            yield "fetches with curl or wget; use WebDownload, whose checksum is seen here"


def _unverified(steps: list[Step]) -> Iterator[str]:
    """Yield the downloads that neither a checksum nor a later step with a pinned key verifies."""
    for index, step in enumerate(steps):
        if step.get("action") != "WebDownload":
            continue
        later = "\n".join(command for each in steps[index + 1 :] for command in commands_of(each))
        for entry in step["inputs"]:
            checked = entry.get("algorithm") == "SHA256" and REFERENCE.search(str(entry.get("checksum")))
            lines = [
                line for line in later.replace("\\\n", " ").splitlines() if line.strip().startswith(_VERIFIES)
            ]
            if not checked and not any(str(entry.get("destination")) in line.split() for line in lines):
                yield f"{step.get('name')}: {entry.get('source')} has no checksum and no key of the lock"
