"""Read a sweep: recipes with grids of settings, over clusters and instance types, as one TOML file.

    [[pools]]
    cluster = "dl1"            # or: type = "p4d.24xlarge", nodes = 2

    [[jobs]]
    recipe = "bert_pretrain"
    settings = { size = "large", steps = 1000 }
    grid = { learning_rate = [1e-4, 3e-4], global_batch = [256, 512] }

Each point of a grid is a job. The estimator gives its modes: the fastest variant of each technique that fits.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice, product
from pathlib import Path
from typing import NamedTuple

from slipway.containers.runtime.named_files import read_text
from slipway.jobs.estimate.errors import CannotEstimate
from slipway.jobs.estimate.estimates import PricedHardware
from slipway.jobs.estimate.inputs.own_data import measurements, rates
from slipway.jobs.estimate.inputs.places import find_place
from slipway.jobs.estimate.inputs.workloads import workload_of
from slipway.jobs.estimate.prices import ON_DEMAND, SPOT, find_rate
from slipway.jobs.plan.inputs.files import MOST_BYTES, Fields, PlanFile, price_words
from slipway.jobs.plan.inputs.own_commands import own_command_job
from slipway.jobs.plan.search.model import Mode, PlanJob, Pool
from slipway.jobs.plan.search.refusals import MOST_JOBS, CannotPlan
from slipway.jobs.plan.techniques.modes import EstimatedJob, modes
from slipway.jobs.words.catalogue.instances import instance_type
from slipway.jobs.words.errors import SlipwayError
from slipway.jobs.words.job import LONGEST_NAME, DoesNotFit, InvalidJob, Job
from slipway.jobs.words.recipes import Recipe, find_recipe, refuse_hardware, refuse_settings, refuse_torch
from slipway.jobs.words.text import printable

_FILE = ("name", "pools", "jobs")
_POOL = ("cluster", "type", "nodes", "spot", "interruptions_per_hour", "rework_seconds", "spans_nodes")
_JOB = ("name", "recipe", "settings", "grid", "data", "checkpoints", "deadline", "priority", "depends_on")


class _Place(NamedTuple):
    pool: Pool
    hardware: PricedHardware  # of its nodes


def read_sweep(path: Path) -> PlanFile:
    try:
        found = tomllib.loads(read_text(path, MOST_BYTES))
    except (ValueError, RecursionError) as error:  # bad TOML, or a number of more than 4,300 digits
        raise CannotPlan(
            f"{path} is not TOML: {printable(str(error))}", hint="the format is in docs/planner.md"
        ) from None
    return decode_sweep(Fields(where="", values=found), path)


def decode_sweep(found: Fields, path: Path) -> PlanFile:
    """Build the jobs and pools; unlike in a file of given modes, an unknown field is refused."""
    _refuse_unknown(found, _FILE)
    kinds = _kinds() if any(each.has("cluster") for each in found.objects("pools")) else {}
    places = [_place(each, kinds) for each in found.objects("pools")]
    pools = [place.pool for place in places]
    jobs = [
        job
        for each in found.objects("jobs")
        for job in (
            [own_command_job(each, path.parent, pools, kinds)] if each.has("command") else _jobs(each, places)
        )
    ]
    return PlanFile(
        name=found.text("name", path.stem),
        jobs=tuple(jobs),
        pools=tuple(pools),
        unpriced=tuple(pool.type for pool in pools if not pool.price_per_hour),
        priced=tuple(
            dict.fromkeys(
                price_words(each.hardware.rate, each.pool.type) for each in places if each.hardware.rate
            )
        ),
    )


def _place(found: Fields, kinds: Mapping[str, str]) -> _Place:
    _refuse_unknown(found, _POOL)
    if found.has("cluster") == found.has("type"):
        raise CannotPlan(
            f"{found.where} needs a cluster or a type, and not both",
            hint='write cluster = "dl1", or type = "p4d.24xlarge" and nodes',
        )
    cluster = found.text("cluster", "")
    is_spot = found.truth("spot", False)
    place = find_place(cluster or found.text("type"), rates(), region=None, term=ON_DEMAND)
    if is_spot and (spot := find_rate(rates(), place.instance.name, place.region or None, SPOT)):
        place = replace(place, rate=spot)
    devices = place.instance.accelerator.count if place.instance.accelerator else 1
    most = 1 if kinds.get(cluster) == "mpi" else place.most_nodes  # an MPI cluster runs one job at a time
    pool = Pool(
        type=place.instance.name,
        nodes=found.whole("nodes", most if cluster else None),
        # A cluster gives a job whole nodes.
        devices_per_node=1 if cluster else devices,
        price_per_hour=float(place.rate.usd_per_hour) if place.rate else 0.0,
        is_spot=is_spot,
        interruptions_per_hour=found.number("interruptions_per_hour", 0.0),
        rework_seconds=found.seconds("rework_seconds", 0),
        cluster=cluster,
        spans_nodes=found.truth("spans_nodes", place.instance.has_efa),
    )
    return _Place(pool, place)


def _kinds() -> Mapping[str, str]:
    """Return the kinds of the declared clusters by their names."""
    from slipway.infra.declare.declared import declared_clusters
    from slipway.jobs.words.installation import NoProject

    try:
        return {each.name: each.kind for each in declared_clusters()}
    except NoProject:
        return {}


def _jobs(found: Fields, places: Sequence[_Place]) -> Iterator[PlanJob]:
    _refuse_unknown(found, _JOB)
    recipe = find_recipe(found.text("recipe"))
    given = found.inner("settings").values if found.has("settings") else {}
    fixed = {key: _word(found.where, key, value) for key, value in given.items()}
    axes = {}
    for key, values in found.inner("grid").values.items() if found.has("grid") else ():
        if not isinstance(values, list) or not values:
            raise CannotPlan(
                f"{found.where}.grid.{printable(key)} is no list of values", hint=f"write {key} = [1, 2]"
            )
        axes[key] = [_word(found.where, key, value) for value in values]
    points = [*islice(product(*axes.values()), MOST_JOBS + 1)]
    if len(points) > MOST_JOBS:
        raise CannotPlan(f"{found.where}.grid has more than {MOST_JOBS} points", hint="plan fewer jobs")
    for point in points:
        settings = {**fixed, **dict(zip(axes, point, strict=True))}
        given_name = found.text("name", recipe.name)
        name = "-".join([given_name, *(value.replace(".", "_").replace("+", "") for value in point)])
        if len(name) > LONGEST_NAME:
            raise CannotPlan(
                f"the name '{name[:60]}…' is too long", hint=f"give {found.where} a shorter name"
            )
        yield _job(found, recipe, settings, name, places)


def _job(
    found: Fields, recipe: Recipe, settings: Mapping[str, str], name: str, places: Sequence[_Place]
) -> PlanJob:
    try:
        refuse_settings(recipe, settings)
        job = Job(
            name=name,
            recipe=recipe.name,
            nodes=1,
            settings=settings,
            data=found.maybe(found.text, "data"),
            checkpoints=found.maybe(found.text, "checkpoints"),
        )
        ways = tuple(_modes(recipe, settings, places))
    except (InvalidJob, CannotEstimate) as error:
        raise CannotPlan(f"{found.where}: {error.message}", hint=error.hint) from None
    if not ways:
        types = ", ".join(dict.fromkeys(place.pool.type for place in places))
        raise CannotPlan(
            f"job '{name}' fits none of the pools ({types}) by any technique",
            hint="add a pool of a type with more memory, or make micro_batch smaller",
        )
    return PlanJob(
        name=name,
        modes=ways,
        job=job,
        depends_on=found.texts("depends_on"),
        deadline=found.maybe(found.seconds, "deadline"),
        priority=found.whole("priority", 0),
    )


def _modes(recipe: Recipe, settings: Mapping[str, str], places: Sequence[_Place]) -> Iterator[Mode]:
    """Estimate the recipe's modes on each type that it can train on."""
    workload, rows = workload_of(recipe.name, settings), measurements()
    seen: set[tuple[str, int, int]] = set()
    for place in places:
        pool = place.pool
        kind = (pool.type, pool.devices_per_node, pool.nodes)
        if kind in seen:
            continue
        try:
            refuse_hardware(recipe, instance_type(pool.type))
        except SlipwayError:
            continue
        seen.add(kind)
        accepts = partial(_accepts, recipe, settings, place.hardware)
        yield from modes(EstimatedJob(workload=workload, rows=rows, accepts=accepts), pool)


def _accepts(
    recipe: Recipe, settings: Mapping[str, str], hardware: PricedHardware, more: Mapping[str, str]
) -> bool:
    """Return True if the recipe accepts the technique's settings besides the job's own on such nodes."""
    if any(settings.get(name, value) != value for name, value in more.items()):
        return False
    try:
        refuse_settings(recipe, {**settings, **more})
        refuse_torch(recipe, {**settings, **more}, hardware.instance, hardware.torch)
    except (InvalidJob, DoesNotFit):
        return False
    return True


def _word(where: str, key: str, value: object) -> str:
    """Return a value in the form that `--set` takes."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str | int | float):
        return str(value)
    raise CannotPlan(f"{where}: {printable(key)} is no text, number or true", hint="correct it in the file")


def _refuse_unknown(found: Fields, known: Sequence[str]) -> None:
    for place in found.unknown(known):
        raise CannotPlan(
            f"{printable(place[:100])} is no field of a sweep", hint=f"there are {', '.join(known)}"
        )
