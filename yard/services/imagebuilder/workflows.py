"""The steps of a bake, in the order and under the names of Image Builder's own workflows.

A further step is a function and its line in WORKFLOWS.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from slipway.yard.endpoint import own_client
from slipway.yard.services.imagebuilder import base, components, store
from slipway.yard.services.imagebuilder.components import Cancelled, Component
from slipway.yard.services.imagebuilder.distribution import distribute, unknown
from slipway.yard.services.imagebuilder.document import parse
from slipway.yard.services.imagebuilder.errors import BadDocument
from slipway.yard.services.imagebuilder.log import Journal
from slipway.yard.services.imagebuilder.machine import Machine
from slipway.yard.services.imagebuilder.records import Bake, Ingredient, StepRun


@dataclass(slots=True, kw_only=True)
class Kitchen:
    """What the steps of one bake share."""

    bake: Bake
    journal: Journal
    machine: Machine
    components: list[Component] = field(default_factory=list)

    def run_phases(self, step: StepRun, *phases: str) -> None:
        """All components' first phase, then all components' second one, as on AWS."""
        total = len(phases) * len(self.components)
        for number, (phase, component) in enumerate(
            ((phase, component) for phase in phases for component in self.components), 1
        ):
            step.message = f"{component.name}, {phase} ({number} of {total})"
            components.run_phase(
                component, phase, self.machine, self.journal.say, self.bake.plan.cancelled.is_set
            )


def _launch(kitchen: Kitchen, _step: StepRun) -> None:
    plan = kitchen.bake.plan
    if refused := unknown(plan.distributions):
        raise BadDocument(f"the distribution has {refused[0]}, which the yard does not do")
    own_client("iam", plan.region).get_instance_profile(InstanceProfileName=plan.instance_profile)
    kitchen.components += [found for each in plan.ingredients if (found := _component(each, kitchen))]
    kitchen.machine.boot(kitchen.journal.say)
    if plan.cancelled.is_set():
        raise Cancelled


def _component(ingredient: Ingredient, kitchen: Kitchen) -> Component | None:
    if ingredient.data is None:
        left_out = f"{ingredient.arn}: a component of AWS's own, whose document is not here"
        kitchen.bake.left_out.append(left_out)
        kitchen.journal.say(f"left out: {left_out}")
        return None
    try:
        document = parse(ingredient.data)
        return Component.of(ingredient.arn, ingredient.name, document, ingredient.parameters)
    except BadDocument as error:
        raise BadDocument(f"{ingredient.arn}: {error}") from None


def _distribute(kitchen: Kitchen, _step: StepRun) -> None:
    bake, plan = kitchen.bake, kitchen.bake.plan
    bake.left_out += [words for each in kitchen.components for words in each.left_out]
    at = datetime.now(UTC)
    bake.amis = [*distribute(plan, at)]
    manifest = {
        "image_builder_arn": plan.arn,
        "recipe": plan.name,
        "version": plan.version,
        "parent": plan.parent,
        "base": base.name(),
        "baked_at": at.isoformat(timespec="seconds"),
        "components": [each.arn for each in plan.ingredients],
        "left_out": bake.left_out,
    }
    store.keep(kitchen.machine.folder, [str(ami["image"]) for ami in bake.amis], manifest)
    for ami in bake.amis:
        kitchen.journal.say(f"{ami['image']} in {ami['region']}: {ami['name']}")


Act = Callable[[Kitchen, StepRun], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Workflow:
    name: str
    type: str
    status: str  # of the image, while it runs
    steps: Mapping[str, tuple[str, Act]]  # name -> action and what it does


WORKFLOWS = (
    Workflow(
        name="build-image",
        type="BUILD",
        status="BUILDING",
        steps={
            "LaunchBuildInstance": ("LaunchInstance", _launch),
            "ApplyBuildComponents": (
                "ExecuteComponents",
                lambda kitchen, step: kitchen.run_phases(step, "build", "validate"),
            ),
            "RunSanitizeScript": ("SanitizeInstance", lambda kitchen, _: kitchen.machine.seal()),
            "CreateOutputAMI": ("CreateImage", lambda kitchen, _: kitchen.machine.clear()),
        },
    ),
    Workflow(
        name="test-image",
        type="TEST",
        status="TESTING",
        steps={
            "LaunchTestInstance": (
                "LaunchInstance",
                lambda kitchen, _: kitchen.machine.start_test(kitchen.journal.say),
            ),
            "ApplyTestComponents": (
                "ExecuteComponents",
                lambda kitchen, step: kitchen.run_phases(step, "test"),
            ),
            "TerminateTestInstance": ("TerminateInstance", lambda kitchen, _: kitchen.machine.clear()),
        },
    ),
    Workflow(
        name="distribute-image",
        type="DISTRIBUTION",
        status="DISTRIBUTING",
        steps={"DistributeImage": ("DistributeImage", _distribute)},
    ),
)
