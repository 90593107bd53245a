"""Which checkpoint to go on from: the newest that verifies on all ranks, or a plain no with every reason."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from slipway.containers.runtime.checkpoint import manifest
from slipway.containers.runtime.checkpoint.manifest import DamagedCheckpoint, Manifest, NewerCheckpoint
from slipway.containers.runtime.checkpoint.tensor_file import TensorData, read_tensors
from slipway.containers.runtime.collective import Collective, Json
from slipway.containers.runtime.contract.contract import LaunchContract
from slipway.containers.runtime.errors import Refusal
from slipway.containers.runtime.values import shown

# auto: from the newest, or from the beginning if there is none. required: there must be one.
# never: from the beginning, and there must be none, or a later `auto` would go on from the wrong training.
Mode = Literal["auto", "required", "never"]

LARGEST_STEP = 10**10 - 1
_PUBLISHED = re.compile(r"step-([0-9]{10})", re.ASCII)
_NOTHING = -1


class NoCheckpoint(Refusal):
    """No checkpoint was ever published in this folder."""


class NoGoodCheckpoint(Refusal):
    """There are checkpoints but none can be trusted: starting from step 0 would hide a loss."""


class OtherTraining(Refusal):
    """The checkpoint is sound but comes from another model, configuration or number of ranks."""


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

    folder: Path
    manifest: Manifest
    rejected: frozenset[str]  # the newer ones that did not verify

    @property
    def step(self) -> int:
        return self.manifest.step

    def state(self, rank: int) -> Json:
        """Return what this rank of the saving world gave to `save` as its own."""
        return self.manifest.ranks[rank].state

    def tensors(self, rank: int) -> dict[str, TensorData]:
        """Return the tensors of one rank of the saving world; a resharded training reads those of several."""
        file = self.manifest.ranks[rank]
        return read_tensors(self.folder / file.name, file.digest)


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    folder: Path
    collective: Collective
    say: Callable[[str], None]

    def resume(self, training: Training, mode: Mode, *, reshard: bool) -> Resumed | None:
        if mode not in ("auto", "required", "never"):
            raise Refusal(f"resume is {shown(mode)}, and must be auto, required or never")
        agreed, rejected, seen = self._agree(look=mode != "never")
        if mode == "never" and seen:
            raise Refusal(
                f"{self.folder} holds {seen} checkpoint(s) and resume is never",
                hint="name an empty folder, or resume from them",
            )
        if agreed == _NOTHING:
            self._refuse_or_start(mode, rejected, seen)
            return None
        found = Resumed(
            folder=step_folder(self.folder, agreed),
            manifest=manifest.read_manifest(step_folder(self.folder, agreed)),
            rejected=frozenset(rejected),
        )
        _refuse_other_training(found, training, self.collective.world, reshard=reshard)
        self._report(f"resuming from step {agreed} of {self.folder}", rejected)
        return found

    def _agree(self, *, look: bool) -> tuple[int, dict[str, str], int]:
        """Lower the limit to the newest step that every rank can read, until all ranks say the same."""
        rejected: dict[str, str] = {}
        limit = LARGEST_STEP if look else _NOTHING
        while True:
            answers = self.collective.gather(self._own_answer(limit, rejected))
            _refuse_newer(answers)
            steps = [_number(answer, "step") for answer in answers]
            if min(steps) == max(steps):
                seen = max(_number(answer, "seen") for answer in answers)
                return steps[0], _all_rejections(answers), seen
            limit = min(steps)

    def _own_answer(self, limit: int, rejected: dict[str, str]) -> Json:
        """Return a refusal as an answer like any other: a rank that raised here would leave the others
        waiting."""
        newer = ""
        try:
            step = self._newest_good(limit, rejected)
        except NewerCheckpoint as refusal:
            step, newer = _NOTHING, str(refusal)
        seen = len(published(self.folder))
        return {"step": step, "seen": seen, "rejected": dict(rejected), "newer": newer}

    def _newest_good(self, limit: int, rejected: dict[str, str]) -> int:
        for step, folder in published(self.folder).items():
            if step > limit or folder.name in rejected:
                continue
            try:
                self._verify(step, folder)
            except DamagedCheckpoint as reason:
                rejected[folder.name] = str(reason)
            else:
                return step
        return _NOTHING

    def _verify(self, step: int, folder: Path) -> None:
        """Verify this rank's share of the files; the ranks together verify all of them."""
        record = manifest.read_manifest(folder)
        if record.step != step:
            raise DamagedCheckpoint(f"its manifest is of step {record.step}")
        for file in record.ranks[self.collective.rank :: self.collective.world]:
            manifest.check_content(folder, file)

    def _refuse_or_start(self, mode: Mode, rejected: Mapping[str, str], seen: int) -> None:
        if seen and mode != "never":
            reasons = "; ".join(f"{name}: {why}" for name, why in rejected.items())
            raise NoGoodCheckpoint(
                f"none of the {seen} checkpoint(s) in {self.folder} can be trusted ({reasons})",
                hint="restore one, or start afresh in another folder",
            )
        if mode == "required":
            raise NoCheckpoint(f"{self.folder} holds no checkpoint, and resume is required")
        self._report(f"no checkpoint in {self.folder}: starting from step 0", {})

    def _report(self, line: str, rejected: Mapping[str, str]) -> None:
        if self.collective.rank == 0:
            for name, why in rejected.items():
                self.say(f"skipping checkpoint {name}: {why}")
            self.say(line)


def published(folder: Path) -> dict[int, Path]:
    """Return the published checkpoints by step, newest first. Other files in the folder do not count."""
    try:
        found = [(_PUBLISHED.fullmatch(path.name), path) for path in folder.iterdir()]
    except FileNotFoundError:
        return {}
    steps = {int(match[1]): path for match, path in found if match}
    return dict(sorted(steps.items(), reverse=True))


def step_folder(folder: Path, step: int) -> Path:
    return folder / f"step-{step:010d}"


def _refuse_newer(answers: list[Json]) -> None:
    for answer in answers:
        if isinstance(answer, dict) and (refusal := answer.get("newer")):
            raise NewerCheckpoint(str(refusal))


def _all_rejections(answers: list[Json]) -> dict[str, str]:
    reasons: dict[str, str] = {}
    for rank, answer in enumerate(answers):
        rejected = answer.get("rejected") if isinstance(answer, dict) else None
        for name, why in (rejected if isinstance(rejected, dict) else {}).items():
            reasons.setdefault(name, f"{why} (found by rank {rank})")
    return dict(sorted(reasons.items(), reverse=True))


def _number(answer: Json, name: str) -> int:
    value = answer.get(name) if isinstance(answer, dict) else None
    assert isinstance(value, int), f"a rank answered {answer!r}"
    return value


def _refuse_other_training(found: Resumed, training: Training, world: int, *, reshard: bool) -> None:
    record = found.manifest
    shape = _differences("topology", record.topology, dict(training.topology))
    if record.world != world:
        shape.insert(0, f"world: saved {record.world}, now {world}")
    other = _differences("config", record.config, dict(training.config))
    if other or (shape and not reshard):
        raise OtherTraining(
            f"{found.folder} belongs to another training: {'; '.join(other + shape)}",
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
