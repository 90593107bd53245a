"""Published weights are read and written number for number, and a rank reads only its part."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers", reason="the extra 'compare' is not installed")

import torch
import transformers
from safetensors.torch import load_file, save_file

from slipway.containers.data.sources.sources import Source
from slipway.containers.models.configs import config_of
from slipway.containers.models.folder import ModelPlan, described, write_model
from slipway.containers.models.published import load_weights, open_model
from slipway.containers.models.shapes import EncoderShape
from slipway.containers.models.slices import INDEX, WEIGHTS
from slipway.containers.runtime.checkpoint.boxes import Box
from tests.containers.models import published_models as models

CLASSES = {
    "bert": ("AutoModelForPreTraining", "BertForPreTraining"),
    "distilbert": ("AutoModelForSequenceClassification", "DistilBertForSequenceClassification"),
    "gptj": ("AutoModelForCausalLM", "GPTJForCausalLM"),
    "neox": ("AutoModelForCausalLM", "GPTNeoXForCausalLM"),
}

pytestmark = pytest.mark.filterwarnings("ignore")  # of what transformers imports


@pytest.mark.parametrize("kind", models.MAKERS)
def test_what_transformers_saved_answers_here_as_there(kind: str, tmp_path: Path) -> None:
    theirs = models.save(kind, tmp_path)
    ours, _ = models.load(tmp_path)
    torch.testing.assert_close(models.answers(ours), models.their_answers(theirs), rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("kind", models.MAKERS)
def test_what_is_written_here_is_loaded_by_transformers_as_it_is(kind: str, tmp_path: Path) -> None:
    theirs = models.save(kind, tmp_path / "theirs")
    ours, found = models.load(tmp_path / "theirs")
    loader, architecture = CLASSES[found.shape.family]
    written = write(tmp_path, ours, config_of(found.shape, architecture))
    again, told = getattr(transformers, loader).from_pretrained(written, output_loading_info=True)
    assert not told["missing_keys"]
    assert not told["unexpected_keys"]
    assert type(again) is type(theirs)
    # Not equal to the bit: gelu_fast comes back as gelu_new, the same formula in another order.
    answers = models.their_answers(again.eval())
    torch.testing.assert_close(answers, models.their_answers(theirs), rtol=1e-6, atol=1e-6)
    assert open_model(str(written)).shape == found.shape


@pytest.mark.parametrize("kind", ["bert", "gptj", "neox tied"])
def test_shards_behind_an_index_are_one_model_both_ways(kind: str, tmp_path: Path) -> None:
    theirs = models.save(kind, tmp_path / "theirs", max_shard_size="20KB")
    assert (tmp_path / "theirs" / INDEX).exists()
    ours, found = models.load(tmp_path / "theirs")
    torch.testing.assert_close(models.answers(ours), models.their_answers(theirs), rtol=2e-5, atol=2e-5)
    written = write(tmp_path, ours, dict(found.config), most_shard_bytes=20_000)
    assert len(list(written.glob("model-*-of-*.safetensors"))) > 2
    loader, _ = CLASSES[found.shape.family]
    again = getattr(transformers, loader).from_pretrained(written).eval()
    assert torch.equal(models.their_answers(again), models.their_answers(theirs))
    total = json.loads((written / INDEX).read_text())["metadata"]["total_size"]
    assert total == 4 * sum(parameter.numel() for parameter in ours.parameters())


@pytest.mark.parametrize("kind", ["bert", "gptj", "neox"])
def test_any_box_of_a_parameter_is_read_alone(kind: str, tmp_path: Path) -> None:
    models.save(kind, tmp_path)
    ours, found = models.load(tmp_path)
    weights, sizes = found.weights(), models.sizes_of(ours)
    for name, parameter in ours.named_parameters():
        for box in boxes_of(parameter):
            assert torch.equal(weights.read(name, box, sizes[name]), inside(parameter, box)), (name, box)


def test_a_rank_of_eight_reads_an_eighth_of_the_layers(tmp_path: Path) -> None:
    """If rows are shared, as in full sharding, a rank reads its rows and the headers."""
    models.save("gptj", tmp_path, max_shard_size="20KB")
    found = open_model(str(tmp_path))
    counting = Counting(found.source)
    weights = replace(found, source=counting).weights()
    ours = models.build(found.shape)
    headers, whole, mine = counting.total, 0, 0
    for name, sizes in models.sizes_of(ours).items():
        if len(sizes) == 2 and sizes[0] % 8 == 0:
            box = Box((sizes[0] // 8, 0), (sizes[0] // 8, sizes[1]))
            weights.read(name, box, sizes)
            mine += 4 * box.elements
            whole += 4 * sizes[0] * sizes[1]
    assert counting.total == headers + mine
    assert mine * 8 == whole


def test_half_precision_is_read_as_it_was_meant(tmp_path: Path) -> None:
    theirs = models.make("neox").to(torch.float16)
    theirs.save_pretrained(tmp_path)
    ours, _ = models.load(tmp_path)
    assert torch.equal(ours.get_parameter("head.weight"), theirs.lm_head.weight.float())


def test_names_of_old_versions_are_known(tmp_path: Path) -> None:
    """Before 2019 norms had gammas and betas, and before transformers 5 GPT-NeoX's head was embed_out."""
    for kind, renames in {
        "bert": {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"},
        "neox": {"lm_head.": "embed_out."},
    }.items():
        theirs = models.save(kind, tmp_path / kind)
        tensors = load_file(tmp_path / kind / WEIGHTS)
        for new, old in renames.items():
            tensors = {name.replace(new, old): tensor for name, tensor in tensors.items()}
        save_file(tensors, tmp_path / kind / WEIGHTS)
        ours, _ = models.load(tmp_path / kind)
        torch.testing.assert_close(models.answers(ours), models.their_answers(theirs), rtol=2e-5, atol=2e-5)


def test_keys_of_rotary_positions_before_transformers_5_are_known(tmp_path: Path) -> None:
    models.save("neox tied", tmp_path)
    wanted = open_model(str(tmp_path)).shape
    models.change(tmp_path, rope_parameters=None, rotary_pct=0.5, rotary_emb_base=500)
    assert open_model(str(tmp_path)).shape == wanted


def test_a_write_that_ends_half_way_leaves_the_model_that_was_there(tmp_path: Path) -> None:
    ours = models.build(models.small_bert())
    folder = write(tmp_path, ours, {"a": 1})
    with pytest.raises(ZeroDivisionError):
        write_model(tmp_path, plan_of(ours), lambda _name: 1 // 0, described({"a": 2}, {}))
    assert json.loads((folder / "config.json").read_text()) == {"a": 1}
    assert write(tmp_path, ours, {"a": 3}) == folder
    assert json.loads((folder / "config.json").read_text()) == {"a": 3}
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_files_of_the_tokenizer_are_carried_along(tmp_path: Path) -> None:
    models.save("gptj", tmp_path / "theirs")
    (tmp_path / "theirs" / "merges.txt").write_text("#version: 0.2\n")
    ours, found = models.load(tmp_path / "theirs")
    written = write(tmp_path, ours, dict(found.config), carried=found.carried())
    assert (written / "merges.txt").read_text() == "#version: 0.2\n"


def test_rows_that_pad_the_vocabulary_change_no_loss_and_are_cut_off_at_the_export(tmp_path: Path) -> None:
    theirs = models.save("bert", tmp_path / "theirs")
    found = open_model(str(tmp_path / "theirs"))
    assert isinstance(found.shape, EncoderShape)
    padded = models.build(replace(found.shape, vocabulary_rows=104))
    with torch.no_grad():
        for parameter in padded.parameters():
            parameter.fill_(3.0)
    assert load_weights(padded, found.weights()) == []
    assert padded.get_parameter("embeddings.words.weight").shape[0] == 104
    plain, _ = models.load(tmp_path / "theirs")
    rows = {
        "words": models.some_words(),
        "segments": torch.zeros(2, 17, dtype=torch.int64),
        "mask": None,
        "positions": torch.tensor([[1, 4], [2, 3]]),
        "labels": torch.tensor([[7, 9], [100, 1]]),
        "follows": torch.tensor([0, 1]),
    }
    assert torch.equal(padded.eval()(**rows).total, plain(**rows).total)
    written = write(tmp_path, padded, dict(found.config))
    again = transformers.AutoModelForPreTraining.from_pretrained(written).eval()
    assert torch.equal(models.their_answers(again), models.their_answers(theirs))


@dataclass
class Counting:
    """Count the bytes that are read from a source."""

    inside: Source
    total: int = field(default=0)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inside, name)

    def read(self, name: str, start: int, length: int) -> bytes:
        self.total += length
        return self.inside.read(name, start, length)


def boxes_of(tensor: torch.Tensor) -> list[Box]:
    """Cut a parameter into uneven boxes, across rows and across columns."""
    boxes, rows = [], tensor.shape[0]
    for begin, end in ((0, rows // 3), (rows // 3, rows)):
        if tensor.ndim == 1:
            boxes.append(Box((begin,), (end - begin,)))
        else:
            middle = tensor.shape[1] // 2 - 1
            boxes.append(Box((begin, 0), (end - begin, middle)))
            boxes.append(Box((begin, middle), (end - begin, tensor.shape[1] - middle)))
    return boxes


def inside(tensor: torch.Tensor, box: Box) -> torch.Tensor:
    for dimension, (offset, side) in enumerate(zip(box.offsets, box.shape, strict=True)):
        tensor = tensor.narrow(dimension, offset, side)
    return tensor


def write(
    beside: Path,
    model: torch.nn.Module,
    config: dict[str, object],
    *,
    most_shard_bytes: int = 1 << 30,
    carried: dict[str, bytes] | None = None,
) -> Path:
    plan = replace(plan_of(model), most_shard_bytes=most_shard_bytes)
    return write_model(
        beside, plan, lambda name: model.get_parameter(name).detach(), described(config, carried or {})
    )


def plan_of(model: Any) -> ModelPlan:
    return ModelPlan(shape=model.shape, sizes=models.sizes_of(model))
