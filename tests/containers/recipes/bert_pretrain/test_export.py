"""Pre-training leaves a model that transformers and fine-tuning load number for number."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import torch  # noqa: E402
from safetensors.torch import load_file  # noqa: E402

from slipway.containers.models.encoder import BertForPreTraining, Classifier  # noqa: E402
from slipway.containers.models.published import load_weights  # noqa: E402
from slipway.containers.recipes.bert_pretrain.config import decode  # noqa: E402
from slipway.containers.recipes.bert_pretrain.model import model_shape  # noqa: E402
from slipway.containers.recipes.glue_finetune.pretrained import read_pretrained  # noqa: E402
from slipway.containers.runtime.contract.launchers import read_contract  # noqa: E402
from slipway.containers.training.state import WEIGHTS  # noqa: E402
from tests.containers.training.held_state import count_reads  # noqa: E402
from tests.containers.training.ranks import Run  # noqa: E402

pytestmark = pytest.mark.slow

ROWS, TOKENS, PREDICTIONS = 4, 24, 5


@pytest.fixture(scope="module")
def exported(alone: Run) -> Path:
    assert alone.codes == (0,), alone.errors
    return alone.checkpoints / "model"


def test_transformers_loads_it_and_has_the_same_losses(exported: Path, data: Path) -> None:
    from slipway.containers.data.rows.dataset import Dataset
    from slipway.containers.runtime.checkpoint.folder import CheckpointFolder
    from slipway.containers.training.start import newest_saved

    theirs, told = transformers.BertForPreTraining.from_pretrained(exported, output_loading_info=True)
    assert not told["missing_keys"]
    assert not told["unexpected_keys"]
    ours = BertForPreTraining(model_shape(decode({}), read_contract({}), Dataset.open(data / "phase1")))
    saved = newest_saved(CheckpointFolder(exported.parent), ours)
    ours.load_state_dict({name: saved.read(WEIGHTS, name) for name in saved.shapes})
    generator = torch.Generator().manual_seed(3)
    words = torch.randint(5, 200, (ROWS, TOKENS), generator=generator)
    segments = torch.randint(0, 2, (ROWS, TOKENS), generator=generator)
    mask = (torch.arange(TOKENS) < torch.tensor([24, 20, 9, 24])[:, None]).long()
    positions = torch.stack([torch.randperm(9, generator=generator)[:PREDICTIONS] for _ in range(ROWS)])
    labels = torch.randint(5, 200, (ROWS, PREDICTIONS), generator=generator)
    follows = torch.tensor([0, 1, 1, 0])
    whole = torch.full((ROWS, TOKENS), -100).scatter(1, positions, labels)
    with torch.no_grad():
        mine = ours.eval()(words, segments, mask, positions, labels, follows).total
        wanted = theirs.eval()(
            input_ids=words,
            token_type_ids=segments,
            attention_mask=mask,
            labels=whole,
            next_sentence_label=follows,
        ).loss
    assert float(mine) == pytest.approx(float(wanted), abs=1e-5)


def test_fine_tuning_begins_with_everything_but_the_classifier(exported: Path) -> None:
    pretrained = read_pretrained(str(exported))
    model = Classifier(pretrained.shape, 2)
    assert load_weights(model, pretrained.tensors, ("classifier",)) == ["classifier"]
    assert not pretrained.words.is_cased


def test_ranks_that_shared_the_optimizer_leave_the_same_model(zero_pair: Run, pair: Run) -> None:
    shared, plain = (load_file(run.checkpoints / "model" / "model.safetensors") for run in (zero_pair, pair))
    assert shared.keys() == plain.keys()
    for name, tensor in plain.items():
        torch.testing.assert_close(shared[name], tensor, rtol=0, atol=1e-4, msg=name)


def test_the_model_is_written_with_one_tensor_in_memory_at_a_time(
    alone: Run, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from slipway.containers.data.rows.dataset import Dataset
    from slipway.containers.recipes.bert_pretrain.model import export
    from slipway.containers.runtime.checkpoint.folder import CheckpointFolder

    held = count_reads(monkeypatch)
    copied, dataset = shutil.copytree(alone.checkpoints, tmp_path / "copied"), Dataset.open(data / "phase1")
    shape = model_shape(decode({}), read_contract({}), dataset)
    export(CheckpointFolder(copied), shape, dataset)
    assert len(held) > 10
    assert max(held) <= 2  # one is written while the next is read
    first, second = (load_file(folder / "model/model.safetensors") for folder in (alone.checkpoints, copied))
    assert all(torch.equal(first[name], second[name]) for name in first.keys() | second.keys())
