"""Run one rank of fine-tuning by TRL: python -m slipway.containers.recipes.sft.train --set model=llama

The trainers, the adapters and the sharding are TRL's, PEFT's and accelerate's; what is Slipway's is in
callbacks.py. Rank, world size and folders come from the launch contract.
"""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slipway.containers.recipes.sft.config import MODULE, SftConfig, decode_arguments, plan_of
from slipway.containers.runtime.contract.contract import LaunchContract
from slipway.containers.runtime.errors import Refusal
from slipway.containers.training.rank import run_rank

if TYPE_CHECKING:
    from slipway.containers.recipes.sft.callbacks import TunedRun
    from slipway.containers.recipes.sft.data import TuningRows
    from slipway.containers.runtime.collective import Json
    from slipway.containers.training.devices import Device

_PACKAGES = ("datasets", "peft", "transformers", "trl")
# Nothing is asked of a hub, and nobody is told that a trainer was made.
_ALONE = {"HF_HUB_OFFLINE": "1", "HF_HUB_DISABLE_TELEMETRY": "1", "TOKENIZERS_PARALLELISM": "false"}


def _train(config: SftConfig, contract: LaunchContract, stack: ExitStack) -> None:
    plan = plan_of(config, contract.world)
    refuse_missing_packages(config)
    os.environ |= {**_ALONE, **contract.to_environment()}
    from slipway.containers.recipes.sft.callbacks import open_run
    from slipway.containers.recipes.sft.data import model_of, rows_of
    from slipway.containers.training.devices import open_device
    from slipway.containers.training.engine import process_group

    model, rows = model_of(config.model, contract), rows_of(config.data, config.method, contract)
    device = open_device(contract, config.device, config.precision)
    os.environ["ACCELERATE_USE_CPU"] = "true" if device.kind == "cpu" else "false"
    if config.fsdp == "yes":
        refuse_processors(device)
    collective = stack.enter_context(process_group(device, contract, alone_too=config.fsdp == "yes"))
    identity: dict[str, Json] = {
        **config.identity(),
        "precision": device.precision_name,
        "model": model.fingerprint,
        "rows": rows.sha256,
    }
    run = stack.enter_context(open_run(config, contract, device, collective, identity))
    trainer = build_trainer(run, plan.accumulation_steps, model.folder, rows)
    assert trainer.accelerator.is_fsdp2 == (config.fsdp == "yes"), "accelerate shards where it is told to"
    run.train(trainer, plan)


def refuse_processors(device: Device) -> None:
    if device.kind != "cuda":
        raise Refusal(
            "fsdp=yes: accelerate cuts models over GPUs alone, and here is none", hint="set fsdp=no"
        )


def refuse_missing_packages(config: SftConfig) -> None:
    wanted = (*_PACKAGES, *(("bitsandbytes",) if config.quantize == "nf4" else ()))
    if missing := [name for name in wanted if find_spec(name) is None]:
        raise Refusal(
            f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} not installed here",
            hint="train in the image gpu, or in another that has them: docs/sft.md",
        )


def build_trainer(run: TunedRun, accumulation_steps: int, folder: Path, rows: TuningRows) -> Any:
    """Build TRL's trainer of the model in a folder."""
    from datasets import disable_progress_bars, load_dataset
    from transformers import AutoTokenizer
    from transformers.utils.logging import disable_progress_bar
    from trl import DPOConfig, DPOTrainer, SFTConfig, SFTTrainer

    config, device = run.config, run.device
    disable_progress_bar()
    disable_progress_bars()
    tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    if rows.is_chat and tokenizer.chat_template is None:
        raise Refusal(
            f"{config.model} has no chat template, and {config.data} holds messages",
            hint="put a chat_template.jinja into the folder, or give texts",
        )
    model = _load_model(config, device, folder)
    if len(tokenizer) > model.get_input_embeddings().num_embeddings:
        raise Refusal(
            f"the tokenizer of {config.model} has {len(tokenizer)} tokens, and the model knows "
            f"{model.get_input_embeddings().num_embeddings}",
            hint="give the tokenizer that belongs to the model",
        )
    is_dpo = config.method == "dpo"
    make, arguments, own = (
        (DPOTrainer, DPOConfig, {"beta": config.dpo_beta})
        if is_dpo
        else (SFTTrainer, SFTConfig, {"assistant_only_loss": config.loss_on == "assistant"})
    )
    data = load_dataset("json", data_files=str(rows.path), cache_dir=str(run.folder / "data"), split="train")
    settings = arguments(
        output_dir=str(run.folder / "trainer"),
        max_length=config.length,
        **own,
        **trainer_settings(config, device, accumulation_steps),
    )
    add_up_in_fp32(settings, device)
    return make(
        model=model,
        args=settings,
        train_dataset=data,
        processing_class=tokenizer,
        peft_config=_adapters(config),
    )


def _load_model(config: SftConfig, device: Device, folder: Path) -> Any:
    import torch
    from transformers import AutoModelForCausalLM, BitsAndBytesConfig

    more: dict[str, Any] = {}
    if config.quantize == "nf4":
        more["quantization_config"] = BitsAndBytesConfig(
            load_in_4bit=True,
            bnb_4bit_quant_type="nf4",
            bnb_4bit_use_double_quant=True,
            bnb_4bit_compute_dtype=device.precision,
        )
        more["device_map"] = {"": device.place}
    # Weights that are trained are held in fp32, whatever they are computed in, but for adapters on 4 bits,
    # which TRL itself brings to bf16; frozen ones are held in what they are computed in.
    held = device.precision if config.lora_rank else torch.float32
    try:
        return AutoModelForCausalLM.from_pretrained(
            folder, dtype=held, use_safetensors=True, local_files_only=True, trust_remote_code=False, **more
        )
    except (ValueError, KeyError, OSError) as error:
        line = str(error).strip().splitlines()[0]
        raise Refusal(
            f"transformers cannot load {config.model}: {line}",
            hint="give the folder of a causal LM of an architecture that transformers itself has",
        ) from error


def _adapters(config: SftConfig) -> Any:
    if not config.lora_rank:
        return None
    from peft import LoraConfig

    return LoraConfig(
        r=config.lora_rank,
        lora_alpha=config.lora_alpha,
        lora_dropout=config.lora_dropout,
        target_modules="all-linear",
        task_type="CAUSAL_LM",
    )


def trainer_settings(config: SftConfig, device: Device, accumulation_steps: int) -> dict[str, Any]:
    """Return the Trainer's settings; callbacks.py saves and prints instead of the Trainer."""
    is_layer = config.checkpoint_activations == "layer"
    sharded = {"fsdp": True, "fsdp_config": {"version": 2, "activation_checkpointing": is_layer}}
    return {
        "per_device_train_batch_size": config.micro_batch,
        "gradient_accumulation_steps": accumulation_steps,
        "num_train_epochs": config.epochs,
        "max_steps": config.steps or -1,
        "learning_rate": config.rate,
        "warmup_steps": config.warmup,
        "lr_scheduler_type": "constant_with_warmup" if config.schedule == "constant" else config.schedule,
        "weight_decay": config.weight_decay,
        "max_grad_norm": config.clip_norm,
        "bf16": device.precision_name == "bfloat16",
        "use_cpu": device.kind == "cpu",
        "activation_checkpointing": is_layer and config.fsdp == "no",
        "activation_checkpointing_kwargs": {"use_reentrant": False},
        "torch_compile": config.compile_layers == "yes",
        "seed": config.seed,
        "logging_steps": 1,
        "logging_nan_inf_filter": False,  # what is no number is to be seen
        "save_strategy": "no",
        "report_to": "none",
        "disable_tqdm": True,
        "push_to_hub": False,
        **(sharded if config.fsdp == "yes" else {}),
    }


def add_up_in_fp32(settings: Any, device: Device) -> None:
    """Let FSDP2 add up gradients in fp32: accelerate does so in the layers' type, which loses small ones."""
    import torch

    if settings.fsdp_plugin_args is not None and device.precision is not torch.float32:
        settings.fsdp_plugin_args["mixed_precision_policy"] = {
            "param_dtype": device.precision,
            "reduce_dtype": torch.float32,
            "output_dtype": device.precision,
        }


main = partial(run_rank, MODULE, decode_arguments, _train, description=__doc__)

if __name__ == "__main__":
    sys.exit(main())
