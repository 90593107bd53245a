"""What fine-tuning does as epochs end, and at its own end: scores, and the model as a folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from slipway.containers.recipes.glue_finetune.batch import Batches
from slipway.containers.recipes.glue_finetune.config import GlueConfig
from slipway.containers.recipes.glue_finetune.evaluate import Evaluations
from slipway.containers.recipes.glue_finetune.pretrained.read import Pretrained
from slipway.containers.recipes.glue_finetune.pretrained.write import write_classifier
from slipway.containers.recipes.glue_finetune.report import write_scores
from slipway.containers.training.report import Say
from slipway.containers.training.start import Trained


@dataclass(frozen=True, slots=True, kw_only=True)
class FinetuneEnd:
    config: GlueConfig
    pretrained: Pretrained
    batches: Batches
    scoring: Evaluations
    say: Say

    def after(self, trained: Trained, steps: int) -> None:
        """Score the model where an epoch ends, but for the last, which `finish` scores."""
        epochs, rest = divmod(steps, self.batches.per_epoch)
        if self.config.evaluate == "epoch" and not rest and steps < trained.steps:
            self.scoring.run(f"epoch {epochs}")

    def finish(self, trained: Trained) -> None:
        scores, contract = self.scoring.run(f"the last of {trained.steps} steps"), trained.contract
        if contract.rank == 0 and contract.logs:
            write_scores(Path(contract.logs), self.scoring.task, scores)
        if contract.rank == 0 and trained.checkpoints is not None:
            model = self.scoring.model
            weights = {
                piece.parameter: piece.data.view_as(model.get_parameter(piece.parameter))
                for piece in trained.engine.weights()
            }
            storage = trained.checkpoints.storage
            with storage.beside() as beside:
                folder = write_classifier(beside, model, weights, self.pretrained, self.scoring.task)
            self.say(f"the model is in {storage}/{folder.name}")
