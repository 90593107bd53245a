"""Models of transformers are tuned by TRL with Slipway's records, checkpoints and exit codes."""

from __future__ import annotations

import json

import pytest

from slipway.containers.recipes.sft.config import decode_arguments
from slipway.containers.recipes.sft.train import add_up_in_fp32, trainer_settings
from slipway.containers.runtime.contract.launchers import read_contract
from slipway.containers.runtime.errors import RESUMABLE_EXIT_CODE
from slipway.containers.training.devices import open_device
from tests.containers.recipes.trainings import Trained, close
from tests.packages import require

require("trl", reason="the extra 'sft' is not installed")

STEPS, SAVED_AFTER = 6, 4
LONG = ("pair", "lora", "fsdp", "ended", "dpo", "bf16", "fsdp-bf16")
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Trained:
    """Tune and resume one Llama in the daily run, and the others only if one of their tests was selected."""
    chosen = {item.get_closest_marker("long") is not None for item in request.session.items}
    folder = tmp_path_factory.mktemp("tuned")
    return Trained.make("tests.containers.recipes.sft.tuned", folder, *(LONG if True in chosen else ()))


def check_resumed(tuned: Trained, name: str) -> None:
    """Compare a resumed tuning with the uninterrupted one."""
    resumed = f"{name}-resumed"
    assert set(tuned.codes[name] + tuned.codes[resumed]) == {0}, tuned.said(resumed)
    assert f"resuming from step {SAVED_AFTER}" in tuned.said(resumed)
    assert tuned.numbers(resumed) == tuned.numbers(name)[SAVED_AFTER:]
    for path in tuned.model(name).glob("*.safetensors"):
        assert path.read_bytes() == (tuned.model(resumed) / path.name).read_bytes()


def test_a_llama_learns_and_resumes_to_the_same_bits(tuned: Trained) -> None:
    check_resumed(tuned, "alone")
    records = tuned.records("alone")
    assert list(records) == list(range(1, STEPS + 1))
    assert records[STEPS]["loss"] < records[1]["loss"] - 0.5
    assert all(record["tokens_per_second"] > record["sequences_per_second"] for record in records.values())
    config = json.loads((tuned.model("alone") / "config.json").read_bytes())
    assert config["architectures"] == ["LlamaForCausalLM"]
    assert {path.suffix for path in tuned.model("alone").iterdir()} == {".json", ".jinja", ".safetensors"}


@pytest.mark.long  # the daily run does so on one rank
@pytest.mark.parametrize("name", ["pair", "fsdp"])
def test_two_ranks_train_as_one_and_resume_to_the_same_bits(tuned: Trained, name: str) -> None:
    check_resumed(tuned, name)
    assert tuned.numbers(name) == close(tuned.numbers("alone"))


@pytest.mark.long  # the daily run tests this decision in tests/containers/training/test_saving.py
def test_where_one_rank_is_asked_to_end_all_save_and_ask_for_another_attempt(tuned: Trained) -> None:
    assert tuned.codes["ended"] == [RESUMABLE_EXIT_CODE] * 2, tuned.said("ended")
    assert "asked to end after step 3 of 4000; saved up to step 3" in tuned.said("ended")


@pytest.mark.long  # the daily run does so with all weights
def test_adapters_alone_are_trained_and_saved_and_name_their_model(tuned: Trained) -> None:
    check_resumed(tuned, "lora")
    written = tuned.model("lora")
    assert json.loads((written / "adapter_config.json").read_bytes())["base_model_name_or_path"] == "qwen"
    assert not (written / "model.safetensors").exists()


@pytest.mark.long  # TRL's own tests check what its trainers compute
@pytest.mark.parametrize("name", ["dpo", "bf16", "fsdp-bf16"])
def test_the_other_method_and_precision_learn(tuned: Trained, name: str) -> None:
    assert set(tuned.codes[name]) == {0}, tuned.said(name)
    (first, _), *_, (last, _) = tuned.numbers(name)
    assert last < first - 0.2


def test_fsdp_adds_up_in_fp32_where_layers_compute_in_bf16() -> None:
    import torch
    from accelerate import FullyShardedDataParallelPlugin
    from torch import distributed
    from torch.distributed.fsdp import fully_shard
    from trl import SFTConfig

    device = open_device(read_contract({}), "cpu", "bf16")
    settings = SFTConfig("unused", **trainer_settings(decode_arguments(["fsdp=yes"]), device, 1))
    add_up_in_fp32(settings, device)
    plugin = FullyShardedDataParallelPlugin(**settings.fsdp_plugin_args)
    plugin.set_mixed_precision("bf16")  # as accelerate does
    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    try:
        layer = torch.nn.Linear(2, 2, bias=False)
        fully_shard(layer, mp_policy=plugin.mixed_precision_policy)
        for number, weight in enumerate([1.0] + [1 / 1024] * 64):
            layer.set_requires_gradient_sync(number == 64)
            (layer(torch.ones(1, 2)).float().sum() * weight).backward()
        assert layer.weight.grad.to_local().unique().tolist() == [1 + 64 / 1024]
    finally:
        distributed.destroy_process_group()
