"""Makes tiny models of transformers from a config, and rows to tune them on.

python -m tests.containers.recipes.sft.tiny FOLDER
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROWS = 40
# Marks what the assistant says, as TRL needs for a loss on that alone.
_TEMPLATE = (
    "{% for m in messages %}{{ m['role'] }}: "
    "{% if m['role'] == 'assistant' %}{% generation %}{{ m['content'] }}<eos>{% endgeneration %}"
    "{% else %}{{ m['content'] }}\n{% endif %}{% endfor %}"
)
_SIZES: Mapping[str, Any] = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 128,
    "bos_token_id": None,
    "eos_token_id": 0,
    "pad_token_id": 1,
}


def write_inputs(data: Path) -> None:
    """Write models and rows below a data folder."""
    from transformers import LlamaConfig, Qwen3Config

    data.mkdir(parents=True, exist_ok=True)
    _write_model(data / "llama", LlamaConfig)
    _write_model(data / "qwen", Qwen3Config, tie_word_embeddings=True)
    write_rows(data)


def write_rows(data: Path) -> None:
    kinds: Mapping[str, list[dict[str, Any]]] = {
        "chats/all": [
            {
                "messages": [
                    {"role": "user", "content": f"how many is {at}?"},
                    {"role": "assistant", "content": f"it is {at}"},
                ]
            }
            for at in range(ROWS)
        ],
        "text": [{"id": at, "text": f"{at} is followed by {at + 1}"} for at in range(ROWS)],
        "preferences": [
            {"prompt": f"how many is {at}? ", "chosen": f"it is {at}", "rejected": f"who knows {at}"}
            for at in range(ROWS)
        ],
    }
    for name, rows in kinds.items():
        (data / name).parent.mkdir(exist_ok=True)
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        (data / f"{name}.jsonl").write_text(lines, encoding="utf-8")


def _write_model(folder: Path, config: Any, **more: object) -> None:
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast

    words = ["<eos>", "<pad>", *sorted(pre_tokenizers.ByteLevel.alphabet())]
    tokenizer = Tokenizer(models.BPE(vocab={word: at for at, word in enumerate(words)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="<eos>", pad_token="<pad>", chat_template=_TEMPLATE
    ).save_pretrained(folder)
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config(vocab_size=len(words), **_SIZES, **more))
    model.save_pretrained(folder)


if __name__ == "__main__":
    write_inputs(Path(sys.argv[1]))
