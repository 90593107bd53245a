"""Find the checkpoint to resume from: the newest that verifies on all ranks, or an error with every reason.

A rank that says what it needs reads that while it verifies, so an unchanged layout reads no byte twice.
"""

from __future__ import annotations

import errno
import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Literal

from slipway.containers.runtime.checkpoint import manifest
from slipway.containers.runtime.checkpoint.manifest import (
    DamagedCheckpoint,
    Manifest,
    OtherFormat,
    StoredPiece,
    stretches_of,
)
from slipway.containers.runtime.checkpoint.storage import (
    LARGEST_STEP,
    Storage,
    Stretches,
    UnpublishedStep,
    Unreachable,
    place_of,
    reason,
    step_name,
)
from slipway.containers.runtime.collective import Collective, Json
from slipway.containers.runtime.contract.contract import LaunchContract
from slipway.containers.runtime.disk import unwatched
from slipway.containers.runtime.errors import Interruption, Refusal
from slipway.containers.runtime.named_files import UnusableFile
from slipway.containers.runtime.values import shown

# auto: from the newest, or from the beginning if there is none. required: there must be one.
# never: from the beginning, and there must be none, or a later `auto` would go on from the wrong training.
Mode = Literal["auto", "required", "never"]

_NOTHING = -1


class NoCheckpoint(Refusal):
    """No checkpoint was ever published in this folder."""


class NoGoodCheckpoint(Refusal):
    """There are checkpoints, but none can be trusted; to start from step 0 would hide the loss."""


class OtherTraining(Refusal):
    """The checkpoint is sound, but comes from another model, configuration or number of ranks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """Identify the training that owns the checkpoints, and what a resumed training must have in common
    with it."""

    job: str
    run: str
    attempt: int
    topology: Mapping[str, int] = field(default_factory=dict)  # such as {"data": 4, "tensor": 2}
    config: Mapping[str, Json] = field(default_factory=dict)

    @classmethod
    def of(
        cls, contract: LaunchContract, *, topology: Mapping[str, int], config: Mapping[str, Json]
    ) -> Training:
        return cls(
            job=contract.job, run=contract.run, attempt=contract.attempt, topology=topology, config=config
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumed:
    """This checkpoint verified on all ranks."""

    storage: Storage
    manifest: Manifest
    rejected: frozenset[int]  # the newer steps that did not verify
    # The stretches that this rank has read and verified: by file, their first bytes.
    checked: set[tuple[int, int]] = field(default_factory=set, compare=False)

    def __str__(self) -> str:
        return place_of(self.storage, self.step)

    @property
    def step(self) -> int:
        return self.manifest.step

    def read(self, name: str, piece: StoredPiece, first: int, last: int) -> memoryview:
        """Return elements `first` to `last` of a stored piece of the tensor `name`."""
        found = memoryview(bytearray((last - first) * self.manifest.tensors[name].item_bytes))
        self.fill(name, piece, first, found)
        return found

    def fill(self, name: str, piece: StoredPiece, first: int, room: memoryview) -> None:
        """Read elements of a stored piece, from `first` on, into memory; raise DamagedCheckpoint unless every
        stretch that they lie in has its digest. Stretches are whole in the file, and go straight there."""
        item, chunk = self.manifest.tensors[name].item_bytes, self.manifest.chunk_bytes
        begin, end, size = first * item, first * item + len(room), piece.box.elements * item
        low, high = begin // chunk, -(-end // chunk)
        edges = [(at * chunk, min((at + 1) * chunk, size)) for at in range(low, high)]
        rooms = [
            room[start - begin : stop - begin]
            if begin <= start and stop <= end
            else memoryview(bytearray(stop - start))  # asked for in part only
            for start, stop in edges
        ]
        for (start, stop), part, digest in zip(
            edges, self._parts(piece, edges, rooms), piece.digests[low:high], strict=True
        ):
            if hashlib.sha256(part).hexdigest() != digest:
                part[:] = bytes(len(part))  # the memory may be a tensor's
                raise DamagedCheckpoint(f"{self}: {name} is not what was saved (its sha256 differs)")
            self.checked.add((piece.file, piece.begin + start))
            if start < begin or end < stop:
                asked = part[max(0, begin - start) : end - start]
                at = max(0, start - begin)
                room[at : at + len(asked)] = asked

    def _parts(
        self, piece: StoredPiece, edges: Stretches, rooms: Sequence[memoryview]
    ) -> Iterator[memoryview]:
        file = self.manifest.ranks[piece.file].name
        stretches = [(piece.begin + start, piece.begin + stop) for start, stop in edges]
        try:
            with _reading(f"{self}: {file}"):
                yield from self.storage.read(self.step, file, stretches, rooms)
        except Unreachable as error:
            raise Interruption(f"{self}: {reason(error)}") from None


Take = Callable[[Resumed], None]  # reads what this rank needs of a checkpoint


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """Look for the newest checkpoint that all ranks can read.

    With `take`, a rank has read it when all have agreed, and verifies only what it did not read. It may still
    be passed over, so the next `take` must overwrite what this one left; and `take` talks to no other rank,
    which may have found damage and never answer.
    """

    storage: Storage
    collective: Collective
    say: Callable[[str], None]
    take: Take | None = None
    # Why a sound checkpoint could not be taken; raised once all ranks have agreed on its step.
    _refusals: dict[int, Refusal] = field(default_factory=dict)

    def resume(self, training: Training, mode: Mode, *, reshard: bool) -> Resumed | None:
        if mode not in ("auto", "required", "never"):
            raise Refusal(f"resume is {shown(mode)}, and must be auto, required or never")
        mine = replace(self, take=self._taking(training, reshard=reshard)) if self.take else self
        agreed, rejected, seen = mine._agree(look=mode != "never")
        if mode == "never" and seen:
            raise Refusal(
                f"{self.storage} holds {seen} checkpoint(s) and resume is never",
                hint="name an empty folder, or resume from them",
            )
        if agreed == _NOTHING:
            self._refuse_or_start(mode, rejected, seen)
            return None
        found = self._found(agreed, rejected)
        if other := _other_training(found, training, self.collective.world, reshard=reshard):
            raise other
        self._refuse_what_was_not_taken(agreed)
        self._report(f"resuming from step {agreed} of {self.storage}", rejected)
        return found

    def newest(self) -> Resumed:
        """Return the newest good checkpoint of another training, to start from; raise if there is none."""
        agreed, rejected, seen = self._agree(look=True)
        if agreed == _NOTHING:
            self._refuse_or_start("required", rejected, seen)
        self._refuse_what_was_not_taken(agreed)
        self._report(f"starting from step {agreed} of {self.storage}", rejected)
        return self._found(agreed, rejected)

    def _taking(self, training: Training, *, reshard: bool) -> Take:
        """Return a `take` for checkpoints of this training; others are refused after verification."""
        take, world = self.take, self.collective.world
        assert take is not None, "it was asked for"

        def taking(found: Resumed) -> None:
            if _other_training(found, training, world, reshard=reshard) is None:
                take(found)

        return taking

    def _refuse_what_was_not_taken(self, step: int) -> None:
        if self.take is None:
            return
        own = self._refusals.get(step)
        told = self.collective.gather(None if own is None else str(own))
        if own is not None:
            raise own
        for rank, why in enumerate(told):
            if why is not None:
                raise Refusal(f"rank {rank}: {why}")

    def _found(self, step: int, rejected: Mapping[int, str]) -> Resumed:
        record = read_manifest(self.storage, step)
        return Resumed(storage=self.storage, manifest=record, rejected=frozenset(rejected))

    def _agree(self, *, look: bool) -> tuple[int, dict[int, str], int]:
        """Lower the limit to the newest step that every rank can read, until all ranks agree."""
        rejected: dict[int, str] = {}
        limit = LARGEST_STEP if look else _NOTHING
        while True:
            answers = self.collective.gather(self._own_answer(limit, rejected))
            _refuse_other_format(answers)
            steps = [_number(answer, "step") for answer in answers]
            if min(steps) == max(steps):
                rejections = _all_rejections(answers)
                seen = max(len(rejections), *(_number(answer, "seen") for answer in answers))
                return steps[0], rejections, seen
            limit = min(steps)

    def _own_answer(self, limit: int, rejected: dict[int, str]) -> Json:
        """Return a refusal as an answer like any other: a rank that raised here would leave the others
        waiting."""
        refused, failed, seen, step = "", "", 0, _NOTHING
        try:
            steps = self.storage.steps()
            seen = len(steps)
            step = self._newest_good([found for found in steps if found <= limit], rejected)
        except OtherFormat as refusal:
            refused = str(refusal)
        except OSError as error:
            failed = f"{self.storage} cannot be used: {reason(error)}"
        except Interruption as interruption:
            failed = interruption.message
        told: dict[str, Json] = {str(step): why for step, why in rejected.items()}
        return {"step": step, "seen": seen, "rejected": told, "other_format": refused, "failed": failed}

    def _newest_good(self, steps: list[int], rejected: dict[int, str]) -> int:
        for step in steps:
            if step in rejected:
                continue
            try:
                self._verify(step)
            except DamagedCheckpoint as damage:
                rejected[step] = str(damage)
            else:
                return step
        return _NOTHING

    def _verify(self, step: int) -> None:
        """Verify this rank's share of the files; the ranks together verify all of them."""
        record = read_manifest(self.storage, step)
        check_sizes(self.storage, step, record)
        found = Resumed(storage=self.storage, manifest=record, rejected=frozenset())
        if self.take is not None:
            try:
                self.take(found)
            except (DamagedCheckpoint, Interruption):
                raise
            except Refusal as refusal:
                self._refusals[found.step] = refusal
        for rank in range(self.collective.rank, record.world, self.collective.world):
            check_content(self.storage, record, rank, but=found.checked)

    def _refuse_or_start(self, mode: Mode, rejected: Mapping[int, str], seen: int) -> None:
        if seen and mode != "never":
            reasons = "; ".join(f"{step_name(step)}: {why}" for step, why in rejected.items())
            raise NoGoodCheckpoint(
                f"none of the {seen} checkpoint(s) in {self.storage} can be trusted ({reasons})",
                hint="restore one, or start afresh in another folder",
            )
        if mode == "required":
            raise NoCheckpoint(
                f"{self.storage} holds no checkpoint, and resume is required",
                hint="name the folder that has one, or set resume=auto to start from step 0",
            )
        self._report(f"no checkpoint in {self.storage}: starting from step 0", {})

    def _report(self, line: str, rejected: Mapping[int, str]) -> None:
        if self.collective.rank == 0:
            for step, why in rejected.items():
                self.say(f"skipping checkpoint {step_name(step)}: {why}")
            self.say(line)


def _refuse_other_format(answers: list[Json]) -> None:
    for answer in answers:
        if isinstance(answer, dict) and (refusal := answer.get("other_format")):
            raise OtherFormat(str(refusal))
        if isinstance(answer, dict) and (failure := answer.get("failed")):
            raise Interruption(str(failure))


def _all_rejections(answers: list[Json]) -> dict[int, str]:
    reasons: dict[int, str] = {}
    for rank, answer in enumerate(answers):
        rejected = answer.get("rejected") if isinstance(answer, dict) else None
        for step, why in (rejected if isinstance(rejected, dict) else {}).items():
            reasons.setdefault(int(step), f"{why} (found by rank {rank})")
    return dict(sorted(reasons.items(), reverse=True))


def _number(answer: Json, name: str) -> int:
    value = answer.get(name) if isinstance(answer, dict) else None
    assert isinstance(value, int), f"a rank answered {answer!r}"
    return value


def _other_training(found: Resumed, training: Training, world: int, *, reshard: bool) -> OtherTraining | None:
    record = found.manifest
    shape = _differences("topology", record.topology, dict(training.topology))
    if record.world != world:
        shape.insert(0, f"world: saved {record.world}, now {world}")
    other = _differences("config", record.config, dict(training.config))
    if not other and (reshard or not shape):
        return None
    return OtherTraining(
        f"{found} belongs to another training: {'; '.join(other + shape)}",
        hint="name another checkpoint folder" if other else "ask for resharding, or use as many ranks",
    )


def _differences(name: str, saved: Mapping[str, Json], now: Mapping[str, Json]) -> list[str]:
    return [
        f"{name}.{key}: saved {_said(saved, key)}, now {_said(now, key)}"
        for key in sorted(saved.keys() | now.keys())
        if saved.get(key) != now.get(key) or (key in saved) != (key in now)
    ]


def _said(config: Mapping[str, Json], key: str) -> str:
    return shown(str(config[key])) if key in config else "absent"


# Verify a published checkpoint: its manifest, the sizes of its files, or every byte of a file.


def read_manifest(storage: Storage, step: int) -> Manifest:
    """Read a published step; raise OtherFormat, or DamagedCheckpoint with the reason."""
    with _reading(manifest.NAME):
        try:
            content = storage.manifest(step)
        except FileNotFoundError:
            raise DamagedCheckpoint(f"it has no {manifest.NAME}") from None
        except NotADirectoryError as error:
            raise DamagedCheckpoint(str(error)) from None
    record = manifest.decode(content, where=f"{place_of(storage, step)}/{manifest.NAME}")
    if record.step != step:
        raise DamagedCheckpoint(f"its manifest is of step {record.step}")
    return record


def is_of_other_format(storage: Storage, step: int) -> bool:
    """Return True if another Slipway saved this checkpoint, so that nothing here may discard it."""
    try:
        read_manifest(storage, step)
    except OtherFormat:
        return True
    except DamagedCheckpoint:
        return False
    return False


def check_sizes(storage: Storage, where: UnpublishedStep | int, record: Manifest) -> None:
    """Raise DamagedCheckpoint unless all files are there with the sizes that the manifest says."""
    with _reading("its folder"):
        found = storage.sizes(where)
    for file in record.ranks:
        if file.name not in found:
            raise DamagedCheckpoint(f"{file.name} is missing, or not a regular file")
        if found[file.name] != file.bytes:
            raise DamagedCheckpoint(f"{file.name} has {found[file.name]} bytes instead of {file.bytes}")


def check_content(
    storage: Storage,
    record: Manifest,
    rank: int,
    moved: Callable[[], None] = unwatched,
    *,
    but: Set[tuple[int, int]] = frozenset(),
) -> None:
    """Read a rank's file and raise DamagedCheckpoint unless every byte is as it was saved; leave out the
    stretches of `but`, which were read and found right."""
    file = record.ranks[rank]
    every = [
        (0, file.header_bytes, file.header_sha256),
        *stretches_of(record.tensors, rank, record.chunk_bytes),
    ]
    stretches = [one for one in every if (rank, one[0]) not in but]
    wanted = [digest for _, _, digest in stretches]
    with _reading(file.name):
        parts = storage.read(record.step, file.name, [(start, stop) for start, stop, _ in stretches])
        for part, digest in zip(parts, wanted, strict=True):
            if hashlib.sha256(part).hexdigest() != digest:
                raise DamagedCheckpoint(f"{file.name} does not hold what was saved (its sha256 differs)")
            moved()


# What a network file system says that has lost its server, while its files may still be sound.
_LOST = {errno.ESTALE, errno.ETIMEDOUT, errno.ENOTCONN, errno.ESHUTDOWN, errno.EHOSTDOWN, errno.EHOSTUNREACH}


@contextmanager
def _reading(what: str) -> Iterator[None]:
    """Raise DamagedCheckpoint where the block cannot read, or Unreachable where nothing can be read now."""
    try:
        yield
    except Unreachable:
        raise
    except UnusableFile as error:
        raise DamagedCheckpoint(error.message) from None
    except OSError as error:
        if error.errno in _LOST:
            raise Unreachable(f"{what}: {reason(error)}") from None
        raise DamagedCheckpoint(f"{what} cannot be read: {reason(error)}") from None


# The global batch of the training to resume, before any rank has built a model.


def saved_batch(storage: Storage) -> int | None:
    """Return the global batch that the newest readable checkpoint was saved with; None if there is none."""
    try:
        for step in storage.steps():
            with suppress(DamagedCheckpoint, OtherFormat):
                batch = read_manifest(storage, step).config.get("global_batch")
                return batch if isinstance(batch, int) else None
    except OSError as error:
        raise Interruption(f"{storage} cannot be used: {reason(error)}") from None
    return None
