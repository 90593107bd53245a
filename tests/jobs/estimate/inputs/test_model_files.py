"""Any model, given by config.json or by sizes, is counted as transformers counts it, or refused by name."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from slipway.jobs.estimate.errors import CannotEstimate
from slipway.jobs.estimate.inputs.model_files import FAMILIES
from slipway.jobs.estimate.inputs.workloads import workload_of
from slipway.jobs.estimate.work.work import parameter_count, training_flops

LLAMA_3_8B: Mapping[str, object] = {
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "max_position_embeddings": 8192,
}
# Sizes that differ from each architecture's defaults, and are small enough to be counted at once.
SMALL: Mapping[str, Mapping[str, object]] = {
    "llama": {"head_dim": 96},
    "qwen3": {"head_dim": 64, "tie_word_embeddings": True},
    "gemma": {"head_dim": 256},
    "phi3": {},
    "gpt_neox": {},
    "gptj": {},
    "gpt2": {},
    "opt": {},
    "starcoder2": {},
    "bloom": {},
    "bert": {},
    "roberta": {},
    "distilbert": {},
    "t5": {"d_kv": 32},
    "mt5": {"d_kv": 64, "feed_forward_proj": "gated-gelu"},
    "bart": {},
    "mixtral": {"num_local_experts": 8, "num_experts_per_tok": 2},
    "olmoe": {"num_experts": 16, "num_experts_per_tok": 4},
    "qwen3_moe": {"num_experts": 16, "num_experts_per_tok": 4, "moe_intermediate_size": 192, "head_dim": 64},
}


def written(folder: Path, config: object) -> str:
    path = folder / "config.json"
    path.write_text(config if isinstance(config, str) else json.dumps(config))
    return str(path)


def small_config(kind: str) -> dict[str, object]:
    """Return a config of this architecture with 6 layers of 512, 8 heads and 2,048 words."""
    family, config = FAMILIES[kind], dict(SMALL[kind])
    for field, value in (
        (family.layers, 6),
        (family.decoder_layers, 4),
        (family.hidden, 512),
        (family.heads, 8),
        ("decoder_attention_heads" if family.heads == "encoder_attention_heads" else "", 8),
        (family.key_value_heads, 4),
        (family.feed_forward, 1536),
        ("decoder_ffn_dim" if family.feed_forward == "encoder_ffn_dim" else "", 1536),
        (family.positions, 256),
        ("vocab_size", 2048),
        ("word_embed_proj_dim" if kind == "opt" else "", 512),
    ):
        if field and field not in config:
            config[field] = value
    return {"model_type": kind, "pad_token_id": 0, **config}


@pytest.mark.parametrize("kind", SMALL)
def test_an_architecture_is_counted_as_transformers_counts_it(kind: str, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    described = small_config(kind)
    config = transformers.AutoConfig.for_model(**described)
    auto = {"bert": "AutoModelForMaskedLM", "t5": "AutoModelForSeq2SeqLM"}
    name = "AutoModelForCausalLM" if FAMILIES[kind].causal else auto["bert"]
    name = auto["t5"] if FAMILIES[kind].decoder_layers else name
    with torch.device("meta"):
        model = getattr(transformers, name).from_config(config)
    theirs = sum(each.numel() for each in model.parameters())
    ours = parameter_count(workload_of(written(tmp_path, described), {}).model)
    assert ours == pytest.approx(theirs, rel=0.02)


def test_a_published_model_has_the_size_that_it_is_named_after(tmp_path: Path) -> None:
    workload = workload_of(written(tmp_path, LLAMA_3_8B), {})
    assert parameter_count(workload.model) == pytest.approx(8.03e9, rel=0.001)
    assert (workload.model.key_value_heads, workload.model.gated) == (8, True)
    assert workload.name == tmp_path.name
    assert workload_of(str(tmp_path), {}).model == workload.model  # the folder with the file


def test_experts_that_a_token_does_not_pass_are_held_and_not_computed(tmp_path: Path) -> None:
    few = workload_of(written(tmp_path, small_config("mixtral")), {}).model
    more = workload_of(written(tmp_path, {**small_config("mixtral"), "num_local_experts": 16}), {}).model
    assert parameter_count(more) > 1.5 * parameter_count(few)
    assert training_flops(more) == training_flops(few)


def test_a_file_with_the_sizes_of_a_model_of_ours_stands_on_its_measurements(tmp_path: Path) -> None:
    config = {
        "model_type": "gpt_neox",
        "hidden_size": 6144,
        "intermediate_size": 24576,
        "num_hidden_layers": 44,
        "num_attention_heads": 64,
        "vocab_size": 50432,
        "max_position_embeddings": 2048,
    }
    assert workload_of(written(tmp_path, config), {}).model_name == "gpt-neox-20b"


def test_sizes_alone_describe_a_model() -> None:
    given = {
        "layers": "32",
        "hidden": "4096",
        "feed_forward": "11008",
        "gated": "true",
        "vocabulary": "32000",
    }
    workload = workload_of("decoder", {**given, "sequence_length": "4096", "sharding": "fsdp"})
    assert parameter_count(workload.model) == pytest.approx(6.74e9, rel=0.03)
    assert workload.model.sequence_length == 4096
    assert workload.layout.sharding == "fsdp"
    assert not workload_of("encoder", {"layers": "12", "hidden": "768"}).model.causal


def test_a_model_of_ours_with_another_size_is_another_model() -> None:
    twice = workload_of("bert-large", {"layers": "48"})
    assert parameter_count(twice.model) > 1.8 * parameter_count(workload_of("bert-large", {}).model)
    assert twice.model_name != "bert-large"
    wide = workload_of("bert-large", {"hidden": "2048"}).model
    assert (wide.heads, wide.feed_forward) == (16, 8192)


def test_adapters_train_few_weights() -> None:
    adapted = workload_of("gpt-neox-20b", {"lora_rank": "16"})
    assert 0 < adapted.model.trained_share < 0.01
    assert adapted.model_name != "gpt-neox-20b"


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"model_type": "mamba", "hidden_size": 8}, "nobody has counted the architecture 'mamba'"),
        ({"hidden_size": 8}, "nobody has counted the architecture None"),
        ({**LLAMA_3_8B, "hidden_size": -4096}, "hidden_size is -4096; it must be a whole number"),
        ({**LLAMA_3_8B, "num_hidden_layers": "32"}, "num_hidden_layers is '32'; it must be a whole"),
        ({**LLAMA_3_8B, "vocab_size": True}, "vocab_size is True"),
        ({**LLAMA_3_8B, "num_attention_heads": 0}, "num_attention_heads is 0"),
        ({**LLAMA_3_8B, "num_key_value_heads": 7}, "key_value_heads 7 does not divide 32 heads"),
        ({**small_config("qwen3_moe"), "mlp_only_layers": [0]}, "mlp_only_layers is [0]"),
        ([1, 2], "holds no settings of a model"),
        ("{", "is no JSON"),
        ("[" * 100_000, "is no JSON"),
    ],
)
def test_a_file_that_cannot_be_counted_is_refused_by_name(tmp_path: Path, config: Any, said: str) -> None:
    with pytest.raises(CannotEstimate) as refused:
        workload_of(written(tmp_path, config), {})
    assert said in refused.value.message
    assert refused.value.hint


@pytest.mark.parametrize(
    ("name", "settings", "said"),
    [
        ("./nowhere", {}, "nowhere is not there"),
        ("decoder", {"layers": "4"}, "hidden is missing"),
        ("decoder", {"layers": "4", "hidden": "wide"}, "hidden is 'wide'"),
        ("decoder", {"layers": "0", "hidden": "64"}, "layers is 0"),
        ("bert-large", {"heads": "7"}, "is not a multiple of 7 heads"),
        ("bert-large", {"parameters": "nan"}, "parameters is nan"),
        ("bert-large", {"parameters": "-1"}, "parameters is -1.0"),
        ("bert-large", {"lora_rank": "0"}, "lora_rank is 0"),
        ("bert-large", {"gated": "yes"}, "gated is 'yes'; allowed are true, false"),
    ],
)
def test_sizes_that_cannot_be_are_refused(name: str, settings: Mapping[str, str], said: str) -> None:
    with pytest.raises(CannotEstimate) as refused:
        workload_of(name, settings)
    assert said in refused.value.message


def test_a_folder_without_a_slash_is_told_how_to_name_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine").mkdir()
    with pytest.raises(CannotEstimate) as refused:
        workload_of("mine", {})
    assert refused.value.hint == "did you mean ./mine?"
