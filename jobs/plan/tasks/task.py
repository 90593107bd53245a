"""Describe a user's own training as Saturn does: a model, data, a loss and hyper-parameters.

`Task` and `HParams` take the arguments of knagrecha/saturn's. A task loads nothing when it is made: ranks do.
"""

from __future__ import annotations

import hashlib
import json
from abc import ABC
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, cast

from slipway.containers.runtime.collective import Json
from slipway.containers.tasks.description import CodeReference, TaskDescription
from slipway.jobs.words.errors import InvalidConfig, Problem
from slipway.jobs.words.given import checked
from slipway.jobs.words.text import printable

if TYPE_CHECKING:
    from torch import nn

_DIGEST_LENGTH = 8
_LONGEST_NAME = 50


class HParams:
    """Hold a task's hyper-parameters: learning rate, length of training, and arguments of `load_model`."""

    @checked
    def __init__(
        self,
        lr: float,
        epochs: int | None = None,
        batch_count: int | None = None,
        optimizer_cls: type | None = None,
        **kwargs: Json,
    ) -> None:
        if (epochs is None) == (batch_count is None):
            raise ValueError(
                f"epochs is {epochs} and batch_count is {batch_count}: give one of them, and not both"
            )
        problems = [
            Problem(where=name, message=f"is {value}; it must be more than 0")
            for name, value in (("lr", lr), ("epochs", epochs), ("batch_count", batch_count))
            if value is not None and not value > 0
        ]
        if problems:
            raise InvalidConfig(problems)
        self.lr = lr
        self.epochs = epochs
        self.batch_count = batch_count
        self.optimizer_cls = optimizer_cls  # None: AdamW
        self.kwargs = kwargs

    @property
    def optimizer_name(self) -> str:
        """Return the optimizer's name: in small letters for torch's own, else where it is defined."""
        chosen = self.optimizer_cls
        if chosen is None:
            return "adamw"
        is_torchs = chosen.__module__.startswith("torch.optim")
        return chosen.__name__.lower() if is_torchs else f"{chosen.__module__}.{chosen.__qualname__}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Strategy:
    """One way to train a task on some number of devices, and how long all of it takes."""

    executor: type[BaseTechnique]
    gpu_apportionment: int
    parameters: Mapping[str, Json]
    runtime: float  # seconds
    technique: str = ""  # with its variant, as a plan shows it
    source: str = "measured"
    error: float = 0.0  # half the width of the runtime's interval, as a share of the runtime


@dataclass(kw_only=True)
class TaskOptions:
    """Hold the options of a task besides its code and hyper-parameters."""

    gpu_range: Sequence[int] | None = None  # the numbers of devices to try; None: 1, 2, 4, … and all
    name: str | None = None
    hints: Mapping[str, object] | None = None  # for techniques of the user's own
    save_dir: str = "./saved_models"
    micro_batch: int | None = None  # rows computed together: fixes what dropout draws, on any devices
    seed: int = 0
    precision: str = "fp32"


class Task:
    """A model to train: `Task(load_model, load_dataloader, loss_function, hyperparameters)`.

    Options are those of TaskOptions. Without a name, one is derived from the task itself, so that the same
    task finds its own checkpoints again.
    """

    @checked
    def __init__(
        self,
        get_model: Callable[..., object],
        get_dataloader: Callable[..., object],
        loss_function: Callable[..., object],
        hparams: HParams,
        **options: object,
    ) -> None:
        self.internal_get_model = get_model
        self.internal_dl = get_dataloader
        self.loss_function = loss_function
        self.hparams = hparams
        self.options = TaskOptions(**options)  # type: ignore[arg-type]  # it refuses unknown options by name
        self.strategies: dict[int, Strategy] = {}  # by number of devices: `search` finds them
        self.strategies_on: dict[str, dict[int, Strategy]] = {}  # likewise, by cluster
        self.not_fitting: dict[str, str] = {}  # what cannot train this task, and why
        self.selected_strategy: Strategy | None = None
        self.current_batch = 0

    @property
    def hints(self) -> Mapping[str, object] | None:
        return self.options.hints

    @property
    def gpu_range(self) -> Sequence[int] | None:
        return self.options.gpu_range

    @property
    def name(self) -> str:
        if self.options.name is not None:
            return self.options.name
        record = self._describe("").as_json()
        digest = hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()
        stem = record["load_model"]
        assert isinstance(stem, Mapping), "it is a reference"
        return f"{printable(str(stem['name']).rpartition('.')[2])[:_LONGEST_NAME]}-{digest[:_DIGEST_LENGTH]}"

    def change_name(self, name: str | None = None) -> None:
        """Rename the task; without a name, derive one from the task as it is now."""
        self.options.name = name

    def describe(self) -> TaskDescription:
        """Return what other processes need to train the task; refuse code that they could not find."""
        return self._describe(self.name)

    def _describe(self, name: str) -> TaskDescription:
        return TaskDescription(
            name=name,
            load_model=CodeReference.of(self.internal_get_model, "load_model"),
            load_dataloader=CodeReference.of(self.internal_dl, "load_dataloader"),
            loss=CodeReference.of(self.loss_function, "the loss"),
            rate=self.hparams.lr,
            optimizer=self.hparams.optimizer_name,
            epochs=self.hparams.epochs,
            batches=self.hparams.batch_count,
            arguments=self.hparams.kwargs,
            micro_batch=self.options.micro_batch,
            seed=self.options.seed,
            precision=self.options.precision,
        )

    @property
    def folder(self) -> Path:
        return Path(self.options.save_dir).resolve() / self.name

    def strategies_at(self, cluster: str) -> dict[int, Strategy]:
        """Return the strategies on a cluster; without a name, those on this machine."""
        return self.strategies_on.setdefault(cluster, {}) if cluster else self.strategies

    def select_strategy(self, strategy: Strategy) -> None:
        self.selected_strategy = strategy

    @property
    def epoch_length(self) -> int:
        """Load the data and count the batches of an epoch."""
        return len(cast(Sequence[object], self.internal_dl()))

    @property
    def total_batches(self) -> int:
        if self.hparams.batch_count is not None:
            return self.hparams.batch_count
        assert self.hparams.epochs is not None, "one of them is set"
        return self.epoch_length * self.hparams.epochs

    def get_iterator(self, modified_dl: object | None = None) -> Iterator[object]:
        """Return the batches from where the task stands."""
        found = iter(cast(Sequence[object], modified_dl if modified_dl is not None else self.internal_dl()))
        for _ in range(self.current_batch):
            next(found)
        return found

    def get_fresh_iterator(self) -> Iterator[object]:
        return iter(cast(Sequence[object], self.internal_dl()))

    def has_ckpt(self) -> bool:
        from slipway.jobs.plan.tasks import saved_models

        return saved_models.is_saved(self.folder)

    def get_model(self, fresh: bool = False) -> nn.Module:
        """Return the model with the weights saved last, or as `load_model` makes it."""
        from slipway.jobs.plan.tasks import saved_models

        return saved_models.load(self.folder, self.describe(), fresh=fresh)

    def save(self, model: nn.Module) -> None:
        """Save the weights of a model; the user's own technique calls this at its end."""
        from slipway.jobs.plan.tasks import saved_models

        saved_models.save(self.folder, model)

    def __str__(self) -> str:
        chosen = self.selected_strategy
        return f"{self.name}: lr {self.hparams.lr:g}, {chosen.technique if chosen else 'not planned yet'}"


def refuse_like_named(tasks: Sequence[Task]) -> list[Task]:
    """Return the tasks if there are any and their names are unique."""
    names = [task.name for task in tasks]
    problems = [
        Problem(
            where=name,
            message=f"is the name of {names.count(name)} tasks",
            hint="tasks that are the same in all get the same name: give one Task(…, name=…)",
        )
        for name in sorted(set(names))
        if names.count(name) > 1
    ]
    if not tasks:
        problems.append(Problem(where="tasks", message="there are none", hint="give a list of Task"))
    if problems:
        raise InvalidConfig(problems)
    return list(tasks)


class BaseTechnique(ABC):
    """A way to train a task on some devices: subclass it, write both functions, and `register` the class."""

    name: ClassVar[str] = ""

    # Called as plain functions of the class: `MyTechnique.execute(task, gpus, task_id, batch_count)`.
    execute: ClassVar[Callable[..., None]]
    search: ClassVar[Callable[..., object]]
