"""What every technique of the user's own is a subclass of."""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable
from typing import ClassVar


class BaseTechnique(ABC):
    """A way to train a task on some devices: subclass it, write both functions, and `register` the class."""

    name: ClassVar[str] = ""

    # Written as plain functions of the class: `MyTechnique.execute(task, gpus, task_id, batch_count)`.
    execute: ClassVar[Callable[..., None]]
    search: ClassVar[Callable[..., object]]
