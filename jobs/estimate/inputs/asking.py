"""What `slipway estimate` and `slipway.estimate` share: one job, in one place, at one or more sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from slipway.jobs.estimate.errors import CannotEstimate
from slipway.jobs.estimate.estimates import Estimate, PricedHardware
from slipway.jobs.estimate.estimates import estimate as estimate_size
from slipway.jobs.estimate.evidence.measurements import Measurement
from slipway.jobs.estimate.inputs.own_data import measurements, rates
from slipway.jobs.estimate.inputs.places import find_place
from slipway.jobs.estimate.inputs.workloads import workload_of
from slipway.jobs.estimate.prices import ON_DEMAND
from slipway.jobs.estimate.work.workloads import Workload

USUAL_SIZES = (1, 2, 4, 8)


def estimate(
    recipe: str,
    *,
    on: str,
    nodes: int | Sequence[int] | None = None,
    settings: Mapping[str, str] | None = None,
    term: str = ON_DEMAND,
    region: str | None = None,
) -> tuple[Estimate, ...]:
    """Estimate a recipe or a model on a cluster or an instance type: one row for each size.

    `term` and `region` choose the price: "on-demand", "spot", "capacity-block", "1-year" or "3-year".

    A model is a name, the path of a config.json, or "decoder" or "encoder" with its sizes as settings.

    A size in `nodes` that cannot work is refused with the nearest that does. Without `nodes`, the rows are
    those of 1, 2, 4 and 8 nodes that work.
    """
    workload = workload_of(recipe, settings or {})
    place = find_place(on, rates(), region=region, term=term)
    known = measurements()
    if nodes is None:
        return tuple(estimate_usual_sizes(workload, place, known)[0])
    sizes = (nodes,) if isinstance(nodes, int) else sorted(set(nodes))
    return tuple(estimate_size(workload, place, size, known) for size in sizes)


def estimate_usual_sizes(
    workload: Workload, place: PricedHardware, known: Sequence[Measurement]
) -> tuple[list[Estimate], dict[int, CannotEstimate]]:
    """Return the usual sizes that work, and why each of the others does not; refuse if none works."""
    usual = [size for size in USUAL_SIZES if size <= place.most_nodes]
    return estimate_what_works(workload, place, usual, known)


def estimate_what_works(
    workload: Workload, place: PricedHardware, sizes: Sequence[int], known: Sequence[Measurement]
) -> tuple[list[Estimate], dict[int, CannotEstimate]]:
    """Return the sizes that work, and why each of the others does not; refuse if none works."""
    found: list[Estimate] = []
    refused: dict[int, CannotEstimate] = {}
    for size in sizes:
        try:
            found.append(estimate_size(workload, place, size, known))
        except CannotEstimate as error:
            refused[size] = error
    if not found:
        raise next(iter(refused.values()))
    return found, refused
