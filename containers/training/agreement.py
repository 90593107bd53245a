"""What all ranks tell each other: sums, and whether they train the same."""

from __future__ import annotations

from torch import Tensor, distributed

from slipway.containers.runtime.collective import Collective, Json
from slipway.containers.runtime.errors import Refusal


def summed(values: Tensor) -> list[float]:
    """Sum values over all ranks; return them as they are where no process group was made."""
    if distributed.is_initialized():
        distributed.all_reduce(values)
    found: list[float] = values.tolist()
    return found


def check_ranks_agree(identity: dict[str, Json], collective: Collective) -> None:
    first, *others = collective.gather(identity)
    for rank, other in enumerate(others, start=1):
        if other != first:
            assert isinstance(other, dict), "it is what a rank sent"
            assert isinstance(first, dict), "it is what rank 0 sent"
            name = next(name for name in first if other.get(name) != first[name])
            raise Refusal(
                f"rank {rank} has {name} {other.get(name)!r}, and rank 0 has {first[name]!r}",
                hint="start all ranks with the same settings and the same image",
            )
