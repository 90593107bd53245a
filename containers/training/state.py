"""The contents of a checkpoint of any layout: boxes of whole tensors, of any dtype and shape.

A tensor is `kind/parameter`. Each rank saves the boxes that it owns; whoever resumes asks for the boxes that
it needs, and reads no more bytes than they lie in. No state of a generator is among them: each micro-batch
seeds its dropout itself, and the order of rows follows from the seed and the cursor.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from slipway.containers.runtime.checkpoint.boxes import Box, strides
from slipway.containers.runtime.checkpoint.manifest import StoredPiece
from slipway.containers.runtime.checkpoint.resume import Resumed
from slipway.containers.runtime.checkpoint.storage import FilePiece
from slipway.containers.runtime.checkpoint.tensor_file import encode_tensor, torch_type
from slipway.containers.runtime.errors import Refusal
from slipway.containers.runtime.values import shown

WEIGHTS = "weights"
MOMENTS = ("exp_avg", "exp_avg_sq")
ENGINE = "engine"  # what an engine keeps beside them, such as fp16's loss scale
LEFT_OUT = "left_out"  # of that, the number of steps whose gradients were not finite

READS_AT_ONCE = 8
AHEAD_BYTES = 64 << 20  # of what is read and not yet asked for
STRETCH_BYTES = 16 << 20  # that one thread reads of a tensor: a large one is shared out
_MOST_NAMED = 8


class ForeignTensors(Refusal):
    """The checkpoint is sound, but its tensors are not those of this model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedBox:
    """Name a box of a parameter, or of the optimizer's state of it."""

    kind: str
    parameter: str  # the model's full name
    box: Box


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorPiece(WantedBox):
    """Hold a box, or where it belongs."""

    data: Tensor  # of the box's shape

    @classmethod
    def whole(cls, kind: str, parameter: str, data: Tensor) -> TensorPiece:
        return cls(kind=kind, parameter=parameter, box=Box.whole(data.shape), data=data.detach())


def encode(pieces: Iterable[TensorPiece]) -> list[FilePiece]:
    """Return the pieces as bytes. Contiguous CPU tensors are not copied."""
    named = ((f"{piece.kind}/{piece.parameter}", piece) for piece in pieces)
    return [
        FilePiece(name=name, box=piece.box, tensor=encode_tensor(name, piece.data)) for name, piece in named
    ]


_Stretch = tuple[str, StoredPiece, int, Tensor]  # a tensor's name, its piece, the first element, where to


class SavedState:
    """Read boxes of a saved training. Every byte that is read is checked against its digest."""

    def __init__(self, found: Resumed) -> None:
        self._found = found

    def __str__(self) -> str:
        return str(self._found)

    @property
    def kinds(self) -> set[str]:
        return {name.partition("/")[0] for name in self._found.manifest.tensors}

    @property
    def left_out(self) -> int:
        """Return how many of its steps the optimizer has not counted."""
        return int(self.read(ENGINE, LEFT_OUT)) if self.has(ENGINE, LEFT_OUT) else 0

    def has(self, kind: str, parameter: str) -> bool:
        return f"{kind}/{parameter}" in self._found.manifest.tensors

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the whole shape of each parameter's weights."""
        named = ((name.partition("/"), tensor) for name, tensor in self._found.manifest.tensors.items())
        return {parameter: tensor.shape for (kind, _, parameter), tensor in named if kind == WEIGHTS}

    def check(self, shapes: Mapping[str, tuple[int, ...]]) -> None:
        """Raise ForeignTensors if names or shapes of parameters differ from these; name the differing."""
        saved = self.shapes
        differing = [
            f"{name}: saved {_said(saved.get(name))}, now {_said(shapes.get(name))}"
            for name in sorted(saved.keys() | shapes.keys())
            if name not in shapes or saved.get(name) != tuple(shapes[name])
        ]
        if differing:
            more = f"; and {len(differing) - _MOST_NAMED} more" if len(differing) > _MOST_NAMED else ""
            raise ForeignTensors(
                f"{self} holds another model: {'; '.join(differing[:_MOST_NAMED])}{more}",
                hint="resume with the model and recipe that saved it",
            )

    def read(self, kind: str, parameter: str, box: Box | None = None) -> Tensor:
        """Return a box of a tensor, or all of it; raise ForeignTensors if the checkpoint lacks a part."""
        name = f"{kind}/{parameter}"
        stored = self._found.manifest.tensors.get(name)
        if stored is None:
            raise ForeignTensors(f"{self} holds no {shown(name)}", hint="resume with what saved it")
        asked = Box.whole(stored.shape) if box is None else box
        if any(end > side for end, side in zip(asked.ends, stored.shape, strict=True)):
            raise ForeignTensors(f"{self} holds {shown(name)} as {stored.shape}, and {asked} was asked for")
        held = [(piece, part) for piece in stored.pieces if (part := piece.box.overlap(asked)) is not None]
        if len(held) == 1 and held[0][1] == asked:
            return self._part(name, *held[0])
        found = torch.empty(asked.shape, dtype=torch_type(stored.dtype))
        for piece, part in held:
            found[part.within(asked).slices].copy_(self._part(name, piece, part))
        filled = sum(part.elements for _, part in held)
        if filled != asked.elements:
            raise ForeignTensors(f"{self} holds {filled} of {asked.elements} elements of {shown(name)}")
        return found

    def read_each(self, wanted: Iterable[WantedBox]) -> Iterator[Tensor]:
        """Yield each wanted box, in order; some are read ahead, as far storage answers slowly."""
        coming: deque[tuple[Future[Tensor], int]] = deque()
        ahead = 0
        with ThreadPoolExecutor(READS_AT_ONCE) as pool:
            for one in wanted:
                stored = self._found.manifest.tensors.get(f"{one.kind}/{one.parameter}")
                # Without one, `read` tells what is missing.
                size = one.box.elements * (stored.item_bytes if stored else 0)
                while coming and (len(coming) == READS_AT_ONCE or ahead + size > AHEAD_BYTES):
                    found, least = coming.popleft()
                    ahead -= least
                    yield found.result()
                coming.append((pool.submit(self.read, one.kind, one.parameter, one.box), size))
                ahead += size
            for found, _ in coming:
                yield found.result()

    def copy_to(self, targets: Iterable[TensorPiece]) -> None:
        """Read each box into the data of its target, in the target's own type.

        What lies in the file as in a target in host memory goes there by stretches, many at once; the rest is
        read as boxes, some ahead.
        """
        boxes: list[TensorPiece] = []
        pool = ThreadPoolExecutor(READS_AT_ONCE)
        try:
            jobs = []
            for target in targets:
                if (stretches := self._stretches_of(target)) is None:
                    boxes.append(target)
                else:
                    jobs += [pool.submit(self._fill, *one) for one in stretches]
            for target, found in zip(boxes, self.read_each(boxes), strict=True):
                target.data.detach().copy_(found)
            for job in jobs:
                job.result()
        finally:
            pool.shutdown(cancel_futures=True)

    def _stretches_of(self, target: TensorPiece) -> list[_Stretch] | None:
        """Return which stretches of stored pieces fill a target as they are; None where its type, its memory
        or its cut is another."""
        name = f"{target.kind}/{target.parameter}"
        stored, whole = self._found.manifest.tensors.get(name), target.data.detach()
        if stored is None or type(whole) is not Tensor or whole.device.type != "cpu":
            return None
        if whole.dtype != torch_type(stored.dtype) or not whole.is_contiguous():
            return None
        found: list[_Stretch] = []
        for piece in stored.pieces:
            if (part := piece.box.overlap(target.box)) is None:
                continue
            (first, last), (at, end) = part.stretch_in(piece.box), part.stretch_in(target.box)
            if last - first != part.elements or end - at != part.elements:
                return None
            found += _shared_out(name, piece, first, whole.view(-1)[at:end])
        filled = sum(len(room) for _, _, _, room in found)
        return found if filled == whole.numel() == target.box.elements else None

    def _fill(self, name: str, piece: StoredPiece, first: int, room: Tensor) -> None:
        """Read elements of a piece, from `first` on, into a target's own memory."""
        self._found.fill(name, piece, first, memoryview(room.view(torch.uint8).numpy()))

    def _part(self, name: str, piece: StoredPiece, part: Box) -> Tensor:
        """Read the stretch of a stored piece from the first to the last element of a box in it."""
        dtype = torch_type(self._found.manifest.tensors[name].dtype)
        if not part.elements:
            return torch.empty(part.shape, dtype=dtype)
        first, last = part.stretch_in(piece.box)
        flat = torch.frombuffer(self._found.read(name, piece, first, last), dtype=dtype)
        return flat.as_strided(part.shape, strides(piece.box.shape))


def _shared_out(name: str, piece: StoredPiece, first: int, room: Tensor) -> Iterator[_Stretch]:
    """Yield so much at a time as one thread reads, cut where digests begin."""
    step, at = max(1, STRETCH_BYTES // room.element_size()), 0
    while at < len(room):
        end = min(len(room), at + step - (first + at) % step)
        yield name, piece, first + at, room[at:end]
        at = end


def _said(shape: tuple[int, ...] | None) -> str:
    return "absent" if shape is None else " × ".join(map(str, shape)) or "one number"


# Pieces are copied to host memory, so that training continues while they are written.
# The buffers are kept from the first save on: allocating them takes longer than copying.


class HostCopy:
    """Keep one copy of a rank's pieces."""

    def __init__(self) -> None:
        self._buffers: dict[tuple[str, str, Box], Tensor] = {}  # by kind and parameter

    def take(self, pieces: Iterable[TensorPiece]) -> list[TensorPiece]:
        """Copy the pieces; what was taken before is overwritten."""
        taken = []
        for piece in pieces:
            key, like = (piece.kind, piece.parameter, piece.box), piece.data
            buffer = self._buffers.get(key)
            if buffer is None or buffer.dtype != like.dtype:
                is_pinned = like.device.type == "cuda"  # which copies to such memory by itself, and faster
                buffer = torch.empty(like.shape, dtype=like.dtype, pin_memory=is_pinned)
                self._buffers[key] = buffer
            buffer.copy_(piece.data, non_blocking=buffer.is_pinned())
            taken.append(replace(piece, data=buffer))
        if any(piece.data.is_pinned() for piece in taken):
            torch.cuda.synchronize()  # copies to pinned memory return before they are done
        return taken
