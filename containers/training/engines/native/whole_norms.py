"""Norms of whole tensors, of which each rank holds a share: what LAMB and LANS divide by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, distributed

from slipway.containers.training.engines.native.assembly import HeldParameter, RankPlace


class WholeNorms:
    """Compute norms with the ranks that hold the other shares; all of them call the same in the same order.

    A rank's share may be empty: fewer rows than ranks.
    """

    def __init__(self, place: RankPlace, masters: Mapping[HeldParameter, Tensor]) -> None:
        self._place = place
        self._is_cut = {master: one.is_cut for one, master in masters.items()}

    def __call__(self, tensors: Sequence[Tensor], parameters: Sequence[Tensor]) -> Sequence[Tensor]:
        squares = torch.stack(torch._foreach_norm(tensors)).square()
        self._add_up(squares, "sharded", self._place.layout.sharded)
        if self._place.layout.tensor > 1:
            cut = [at for at, parameter in enumerate(parameters) if self._is_cut[parameter]]
            places = torch.tensor(cut, device=squares.device)  # the others are whole on every tensor rank
            parts = squares[places]
            self._add_up(parts, "tensor", self._place.layout.tensor)
            squares[places] = parts
        return squares.sqrt().unbind()

    def _add_up(self, squares: Tensor, dimension: str, degree: int) -> None:
        if degree > 1 and squares.numel():
            assert self._place.mesh is not None, "several ranks have a mesh"
            distributed.all_reduce(squares, group=self._place.mesh.get_group(dimension))
