"""A user's tasks, as descriptions."""

from __future__ import annotations

from slipway.containers.tasks.description import CodeReference, TaskDescription
from tests.containers.tasks import own_code

BATCHES = 3


def decoder(name: str = "decoder", *, batches: int = BATCHES, rate: float = 1e-2) -> TaskDescription:
    """Describe a model that every technique can cut."""
    return TaskDescription(
        name=name,
        load_model=CodeReference.of(own_code.decoder, "load_model"),
        load_dataloader=CodeReference.of(own_code.texts, "load_dataloader"),
        loss=CodeReference.of(own_code.next_word, "loss"),
        rate=rate,
        optimizer="adamw",
        epochs=None,
        batches=batches,
    )


def perceptron(name: str = "perceptron") -> TaskDescription:
    """Describe a model that uses nothing of Slipway, with an uneven last batch."""
    return TaskDescription(
        name=name,
        load_model=CodeReference.of(own_code.perceptron, "load_model"),
        load_dataloader=CodeReference.of(own_code.points, "load_dataloader"),
        loss=CodeReference.of(own_code.class_loss, "loss"),
        rate=1e-1,
        optimizer="sgd",
        epochs=1,
        batches=None,
    )
