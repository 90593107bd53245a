"""transformers and torch.distributed.checkpoint load what is saved here, with its moments."""

from __future__ import annotations

import json
import resource
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers", reason="the extra 'compare' is not installed")

import torch
from torch.distributed import checkpoint as library
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

from slipway.containers.models.adapters import AdaptedDecoder
from slipway.containers.models.decoder import DecoderShape
from slipway.containers.runtime.checkpoint.checkpoints import Checkpoints, Training
from slipway.containers.runtime.checkpoint.folder import CheckpointFolder
from slipway.containers.runtime.collective import Json
from slipway.containers.training.give import main
from slipway.containers.training.state import (
    ENGINE,
    LEFT_OUT,
    MOMENTS,
    WEIGHTS,
    TensorPiece,
    encode,
)
from tests.containers.models import published_models as models
from tests.containers.training.held_state import count_reads
from tests.containers.training.test_state import cut

pytestmark = pytest.mark.filterwarnings("ignore")  # of what transformers and the library import
STEP = 7
MISSED = 2  # of these steps, whose gradients were not finite
HEADS = {
    "neox": "embed_out.",
    "neox tied": "embed_out.",
}  # in its files; transformers 5 has another in memory


def save(folder: Path, model: torch.nn.Module, config: dict[str, Json], step: int = STEP) -> None:
    """Save a model in boxes, with moments that show to which weight they belong."""
    pieces = [TensorPiece.whole(ENGINE, LEFT_OUT, torch.tensor([float(MISSED)]))]
    for name, each in model.named_parameters():
        whole = each.detach()
        for kind, tensor in zip((WEIGHTS, *MOMENTS), (whole, whole * 2, whole.square()), strict=True):
            pieces += cut(kind, name, tensor, [[side // 3] for side in tensor.shape])
    training = Training(job="test", run="test", attempt=1, config=config)
    with Checkpoints(CheckpointFolder(folder), training, say=lambda _: None) as checkpoints:
        checkpoints.save(step, encode(pieces))


def saved(kind: str, tmp_path: Path) -> tuple[torch.nn.Module, Any]:
    """Return a saved model of ours, and the same of transformers."""
    theirs = models.save(kind, tmp_path / "theirs")
    ours, found = models.load(tmp_path / "theirs")
    save(tmp_path / "saved", ours, {f"model_{name}": value for name, value in asdict(found.shape).items()})
    return ours, theirs


def given(tmp_path: Path, form: str) -> Path:
    assert main([str(tmp_path / "saved"), str(tmp_path / "given"), f"--form={form}"]) == 0
    return tmp_path / "given" / form


@pytest.mark.parametrize("kind", ["bert", "gptj", "neox", "neox tied"])
def test_transformers_loads_the_model_that_is_given(kind: str, tmp_path: Path) -> None:
    _, theirs = saved(kind, tmp_path)
    loaded, told = type(theirs).from_pretrained(given(tmp_path, "model"), output_loading_info=True)
    assert not told["missing_keys"]
    assert torch.equal(models.their_answers(loaded.eval()), models.their_answers(theirs))


@pytest.mark.parametrize("kind", ["bert", "gptj", "neox", "neox tied"])
def test_the_library_loads_weights_and_moments_by_transformers_names(kind: str, tmp_path: Path) -> None:
    ours, theirs = saved(kind, tmp_path)
    folder = given(tmp_path, "dcp")
    dcp_to_torch_save(folder, tmp_path / "whole.pt")
    content = torch.load(tmp_path / "whole.pt", weights_only=True)
    model, moments = content["model"], content["optim"]["state"]
    assert sum(each.numel() for each in model.values()) == sum(each.numel() for each in ours.parameters())
    wanted = {
        name.replace("lm_head.", HEADS.get(kind, "lm_head.")): each
        for name, each in theirs.state_dict().items()
    }
    for name, tensor in model.items():
        assert torch.equal(tensor, wanted[name]), name
        assert torch.equal(moments[name]["exp_avg"], 2 * tensor), name
        assert torch.equal(moments[name]["exp_avg_sq"], tensor.square()), name
        assert moments[name]["step"] == STEP - MISSED
    again, _ = models.load(folder)
    assert torch.equal(models.answers(again), models.answers(ours))


def test_a_training_of_transformers_goes_on_with_the_moments(tmp_path: Path) -> None:
    _, theirs = saved("gptj", tmp_path)
    optimizer = torch.optim.AdamW(theirs.parameters(), lr=0.1)
    parts = dict(zip(("model", "optim"), get_state_dict(theirs, optimizer), strict=True))
    planner = library.DefaultLoadPlanner(allow_partial_load=True)
    library.load(parts, checkpoint_id=given(tmp_path, "dcp"), planner=planner, no_dist=True)
    set_state_dict(theirs, optimizer, model_state_dict=parts["model"], optim_state_dict=parts["optim"])
    state = optimizer.state[theirs.transformer.h[1].attn.v_proj.weight]
    assert state["step"] == STEP - MISSED
    assert torch.equal(state["exp_avg"], 2 * theirs.transformer.h[1].attn.v_proj.weight)


def test_one_tensor_is_in_memory_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saved("neox", tmp_path)
    held = count_reads(monkeypatch)
    given(tmp_path, "dcp")
    assert len(held) > 20
    assert max(held) <= 2


def test_a_damaged_checkpoint_is_passed_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ours, _ = saved("gptj", tmp_path)
    newest = tmp_path / "saved" / f"step-{STEP:010}"
    config = json.loads((newest / "MANIFEST.json").read_text())["config"]
    save(tmp_path / "saved", ours, config, STEP + 1)
    damaged = tmp_path / "saved" / f"step-{STEP + 1:010}" / "rank-00000.safetensors"
    content = bytearray(damaged.read_bytes())
    content[-1] ^= 1
    damaged.write_bytes(content)
    given(tmp_path, "dcp")
    assert f"skipping checkpoint step-{STEP + 1:010}" in capsys.readouterr().err
    assert not (tmp_path / "given" / ".dcp-unfinished").exists()


def test_what_cannot_be_given_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def said(form: str = "dcp") -> str:
        assert main([str(tmp_path / "saved"), str(tmp_path / "given"), f"--form={form}"]) == 1
        return capsys.readouterr().err

    assert "holds no checkpoint" in said()
    ours, _ = saved("gptj", tmp_path)
    save(tmp_path / "saved", ours, {"task": "mrpc"}, STEP + 1)
    for form in ("dcp", "model"):
        assert "does not say which model it holds; give a checkpoint of bert_pretrain" in said(form)
    shape = models.load(tmp_path / "theirs")[1].shape
    assert isinstance(shape, DecoderShape)
    adapted = AdaptedDecoder(shape, rank=2, alpha=4.0, seed=1, published=None)
    config = {f"model_{name}": value for name, value in asdict(shape).items()}
    save(tmp_path / "saved", adapted, config, STEP + 2)
    assert "query_down.weight, which no gptj of transformers has; adapters are given" in said()


@pytest.mark.parametrize("form", ["dcp", "model"])
def test_a_file_that_cannot_grow_is_one_line(
    form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    saved("gptj", tmp_path)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, hard))
    try:
        assert main([str(tmp_path / "saved"), str(tmp_path / "given"), f"--form={form}"]) == 1
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    last = capsys.readouterr().err.strip().splitlines()[-1]
    assert last.startswith("error: ")
    assert "cannot write" in last
    assert not (tmp_path / "given" / form).exists()
