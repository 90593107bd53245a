"""Settings that spread a model over ranks agree with each other; others are refused before a node starts."""

from __future__ import annotations

import os
import subprocess
from contextlib import ExitStack
from pathlib import Path

import pytest

from slipway.containers.recipes.bert_pretrain.config import decode
from slipway.containers.recipes.gpt_neox.config import decode as decode_neox
from slipway.containers.runtime.contract.launchers import read_contract
from slipway.containers.training.config import TrainingConfig, UnprovedTorch, refuse_unproved
from slipway.containers.training.settings import InvalidSettings
from slipway.jobs.words.images.containers import locked_torch
from slipway.jobs.words.installation import containers_folder

CHOICES = [
    ({}, "deepspeed"),  # tiny's default is ZeRO 1
    ({"zero": "0"}, "plain"),
    ({"zero": "3"}, "deepspeed"),
    ({"engine": "plain"}, "plain"),
    ({"tensor": "2"}, "native"),
    ({"sharded": "2", "pipeline": "2"}, "native"),
    ({"checkpoint_activations": "budget:2.5"}, "native"),
    ({"precision": "fp16", "zero": "0"}, "native"),
]


@pytest.mark.parametrize(("settings", "engine"), CHOICES)
def test_the_engine_follows_from_what_is_asked_of_it(settings: dict[str, str], engine: str) -> None:
    assert decode(settings).engine_name == engine


CONTRADICTIONS = [
    ({"engine": "native", "zero": "1"}, "ZeRO is DeepSpeed's; set zero=0"),
    ({"engine": "plain", "tensor": "2"}, "tensor=2 with engine=plain: only native does that"),
    ({"zero": "2", "pipeline": "2"}, "pipeline=2 with engine=deepspeed: only native does that"),
    ({"precision": "fp16", "engine": "plain"}, "only native scales losses"),
    ({"optimizer": "lans", "zero": "3", "learning_rate": "0.01"}, "set zero=1"),
    ({"pipeline": "2", "pipeline_schedule": "interleaved"}, "set both, or neither"),
    ({"pipeline": "2", "stages_per_rank": "2"}, "set both, or neither"),
    ({"checkpoint_activations": "budget:"}, "such as budget:8"),
    ({"evaluate_every": "5"}, "set held_out=DATASET or held_out_share=0.01"),
    ({"held_out_share": "0.1"}, "nothing would be measured; set evaluate_every"),
    ({"profile": "15:10"}, "a first and a last step, such as 10:15"),
]


@pytest.mark.parametrize(("settings", "told"), CONTRADICTIONS)
def test_a_contradiction_is_told_with_its_remedy(settings: dict[str, str], told: str) -> None:
    with pytest.raises(InvalidSettings, match=told):
        decode(settings)


# A layout trains only on a PyTorch on which it was compared with one process; on others it is refused at
# once.
ROOT = Path(__file__).resolve().parents[3]
# On the PyTorch of Trainium's image, where layouts are not proved, only data parallel and NxD train.
NEURON = ROOT / ".venv" / "neuron-torch" / "bin" / "python"
ON_NEURON = (
    "tests/containers/recipes/bert_pretrain/test_training.py",
    "tests/containers/recipes/glue_finetune/test_training.py",
    "tests/containers/training/engines/test_neuron.py",
)

RANK_0 = {
    "RANK": "0",
    "WORLD_SIZE": "2",
    "LOCAL_RANK": "0",
    "LOCAL_WORLD_SIZE": "2",
    "MASTER_ADDR": "127.0.0.1",
    "MASTER_PORT": "29500",
}


def refuse(config: TrainingConfig, torch: str, accelerator: str | None = None) -> None:
    refuse_unproved(config, torch, accelerator=accelerator, holder="the image gaudi")


@pytest.mark.parametrize("torch", ["2.13.0+cpu", "2.13", "2.14.1"])
def test_a_layout_is_taken_on_a_release_that_it_is_proved_on_or_a_newer_one(torch: str) -> None:
    refuse(decode({"tensor": "2", "sharded": "2"}), torch)


def test_a_layout_on_an_older_release_is_refused_with_both_versions_and_what_to_do() -> None:
    with pytest.raises(UnprovedTorch) as refused:
        refuse(decode({"tensor": "2", "sharded": "2"}), "2.4.0")
    with pytest.raises(UnprovedTorch):
        refuse(decode({"tensor": "2", "sharded": "2"}), "2.12.1")
    assert str(refused.value) == (
        "sharded=2 and tensor=2: its engine, native, is proved on PyTorch 2.13 and newer, and the image "
        "gaudi holds 2.4.0; leave out what asks for it, or train in an image with PyTorch 2.13 or newer"
    )


@pytest.mark.parametrize("settings", [{"zero": "1"}, {"engine": "plain"}])
def test_what_needs_no_layout_engine_is_taken_on_any_release(settings: dict[str, str]) -> None:
    refuse(decode(settings), "2.4.0")


def test_trainium_has_an_engine_of_its_vendor_unless_another_is_asked_for() -> None:
    refuse(decode_neox({"tensor": "8"}), "2.4.0", accelerator="neuron")
    for asked, accelerator in (({"engine": "native"}, "neuron"), ({}, "nvidia")):
        with pytest.raises(UnprovedTorch):
            refuse(decode_neox({"tensor": "8", **asked}), "2.4.0", accelerator=accelerator)


def test_a_rank_refuses_the_pytorch_that_it_finds_before_it_reads_any_weight(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    torch = pytest.importorskip("torch")
    from slipway.containers.training.session import RecipeParts, Workplace, train

    def prepare(config: TrainingConfig, place: Workplace) -> RecipeParts:
        raise AssertionError("24 GB of weights are read here")

    config, contract = (
        decode({"tensor": "2"}),
        read_contract(RANK_0),
    )
    monkeypatch.setattr(torch, "__version__", "2.7.1+cu128")
    with ExitStack() as stack, pytest.raises(UnprovedTorch, match=r"this machine holds 2\.7\.1\+cu128"):
        train(config, contract, config.layout_of(2, 2), prepare, stack)


@pytest.mark.apart
@pytest.mark.skipif(not NEURON.exists(), reason="needs PyTorch of Trainium's image: scripts/set_up_apart")
def test_what_trains_in_trainium_s_image_trains_on_its_pytorch() -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    version = [str(NEURON), "-c", "import torch; print(torch.__version__.partition('+')[0])"]
    found = subprocess.run(version, env=environment, check=True, capture_output=True, text=True).stdout
    locked = locked_torch(containers_folder(), "neuron")
    assert locked is not None
    assert found.strip() == locked.version
    chosen = ("-n", "0", "-p", "no:cacheprovider", "-m", "not apart and not long", *ON_NEURON)
    tests = [str(NEURON), "-m", "pytest", *chosen]
    ran = subprocess.run(tests, cwd=ROOT, env=environment, check=False, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
