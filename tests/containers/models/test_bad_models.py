"""A model folder that is incomplete, or needs what we lack, is refused in one line that says where."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers", reason="the extra 'compare' is not installed")

from safetensors.torch import load_file, save_file

from slipway.containers.models.slices import INDEX, WEIGHTS
from slipway.containers.runtime.errors import Refusal
from tests.containers.models import published_models as models

pytestmark = pytest.mark.filterwarnings("ignore")  # of what transformers imports


@pytest.mark.parametrize(
    ("kind", "changes", "told"),
    [
        ("bert", {"hidden_act": "mish"}, "hidden_act is 'mish', and must be one of gelu, gelu_new"),
        ("bert", {"hidden_act": ["gelu"]}, r"hidden_act is .*gelu.*, and must be one of gelu, gelu_new"),
        ("bert", {"position_embedding_type": "relative_key"}, "must be absolute or absent"),
        ("bert", {"is_decoder": True}, "is_decoder is 'True', and must be false"),
        ("bert", {"tie_word_embeddings": False}, "tie_word_embeddings is 'False', and must be true"),
        ("bert", {"quantization_config": {"bits": 4}}, "quantization_config is .* and must be absent"),
        ("bert", {"hidden_size": "32"}, "hidden_size is '32', and must be a whole number from 1"),
        ("bert", {"num_attention_heads": 5}, "shares 32 among 5 heads"),
        (
            "bert",
            {"model_type": "roberta"},
            "model type 'roberta', which is not one of bert, distilbert, gptj",
        ),
        (
            "bert",
            {"num_hidden_layers": 3},
            r"has no tensor encoder\.layer\.2\.attention\.self\.query\.weight",
        ),
        (
            "bert",
            {"intermediate_size": 64},
            r"intermediate\.dense\.weight of shape \(48, 32\), .* \(64, 32\)",
        ),
        ("distilbert", {"sinusoidal_pos_embds": True}, "sinusoidal_pos_embds is 'True', and must be false"),
        ("gptj", {"activation_function": "silu"}, "activation_function is 'silu'"),
        ("gptj", {"rotary_dim": None}, "rotary_dim is 'None', and must be a whole number"),
        ("gptj", {"rotary_dim": 48}, "an even number from 2 to"),
        ("gptj", {"n_head": 5}, "do not divide"),
        ("gptj", {"resid_pdrop": 0.1}, "embd_pdrop is '0.0', and must be 0.1, as resid_pdrop is"),
        ("gptj", {"tie_word_embeddings": True}, "tie_word_embeddings is 'True', and must be false"),
        ("neox", {"rope_parameters": {"rope_type": "yarn"}}, "the rope type of rope_parameters is 'yarn'"),
        (
            "neox",
            {"rope_scaling": {"type": "linear", "factor": 2}},
            "the rope type of rope_scaling is 'linear'",
        ),
    ],
)
def test_a_config_that_asks_for_what_we_lack_says_what(
    kind: str, changes: dict[str, object], told: str, tmp_path: Path
) -> None:
    models.save(kind, tmp_path)
    models.change(tmp_path, **changes)
    with pytest.raises(Refusal, match=told):
        models.load(tmp_path)


def test_an_index_that_names_a_missing_shard_names_it(tmp_path: Path) -> None:
    models.save("gptj", tmp_path, max_shard_size="20KB")
    shards = sorted(tmp_path.glob("model-*.safetensors"))
    shards[1].unlink()
    with pytest.raises(
        Refusal, match=f"lacks 1 of {len(shards)} shards that {INDEX} names: '{shards[1].name}'"
    ):
        models.load(tmp_path)


def test_a_shard_without_a_tensor_of_the_index_names_both(tmp_path: Path) -> None:
    models.save("gptj", tmp_path, max_shard_size="20KB")
    shard = sorted(tmp_path.glob("model-*.safetensors"))[1]
    tensors = load_file(shard)
    lost = sorted(tensors)[0]
    del tensors[lost]
    save_file(tensors, shard)
    with pytest.raises(Refusal, match=f"has no tensor '{lost}' in {shard.name}, and {INDEX} says"):
        models.load(tmp_path)


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"weight_map": []}', '{"weight_map": {}}'])
def test_an_index_that_is_none_is_refused(content: str, tmp_path: Path) -> None:
    models.save("gptj", tmp_path, max_shard_size="20KB")
    (tmp_path / INDEX).write_text(content)
    with pytest.raises(Refusal, match=INDEX):
        models.load(tmp_path)


def test_a_shard_cut_short_is_refused(tmp_path: Path) -> None:
    models.save("gptj", tmp_path)
    (tmp_path / WEIGHTS).write_bytes((tmp_path / WEIGHTS).read_bytes()[:-10])
    with pytest.raises(Refusal, match=r"model\.safetensors describes \d+ bytes of tensors and holds"):
        models.load(tmp_path)


def test_a_pickle_is_refused_and_never_opened(tmp_path: Path) -> None:
    models.save("gptj", tmp_path)
    (tmp_path / WEIGHTS).rename(tmp_path / "pytorch_model.bin")
    with pytest.raises(Refusal, match=r"pytorch_model\.bin, a pickle: to read it would run code in it"):
        models.load(tmp_path)
