"""The page of the recipe gptj_finetune: how it tunes, and the article's techniques beside ours."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from slipway.containers.recipes.gptj_finetune.config import DRAWN, KNOWN_SIZES, decode
from slipway.containers.recipes.gptj_finetune.data import LABEL_WORDS, PROMPT
from slipway.jobs.estimate.estimates import estimate
from slipway.jobs.estimate.evidence.measurements import our_measurements
from slipway.jobs.estimate.inputs.places import find_place
from slipway.jobs.estimate.inputs.workloads import recipe_workload
from slipway.jobs.estimate.prices import ON_DEMAND, known_rates

_OPENING = """\
# GPT-J

The recipe `gptj_finetune` tunes GPT-J 6B, a tiny one, or any published folder of a GPT-J: to tell the mood of
SST-2's sentences, or to go on writing any text. Nothing is fetched from a hub: `model=` is a folder of
safetensors below the data folder (a disk, FSx) or in S3, and `data=` likewise.

| `size=` | Layers × hidden | Tensor | Tokens of a row | Batch | Rows at a time | Learning rate | Layers |
|---|---|--:|--:|--:|--:|--:|---|
"""
_TASKS = """
```sh
slipway upload sst2 --on sagemaker           # what each upload prints goes in place of s3://BUCKET/…
slipway upload gpt-j-6b --on sagemaker
slipway upload text --on sagemaker
slipway submit gptj_finetune --on sagemaker --nodes 1 --set tensor=2 --set pipeline=2 \\
  --set data=s3://BUCKET/datasets/sst2
slipway submit gptj_finetune --on sagemaker --nodes 1 --set size=gptj-6b \\
  --set model=s3://BUCKET/datasets/gpt-j-6b --set data=s3://BUCKET/datasets/sst2
slipway submit gptj_finetune --on sagemaker --nodes 1 --set size=gptj-6b --set task=text \\
  --set model=s3://BUCKET/datasets/gpt-j-6b --set data=s3://BUCKET/datasets/text
```

**Sentences.** `task=sst2` reads GLUE's own files or what `datasets` saves. A row is the sentence, `{prompt}`
and the word for its label: `{negative}` or `{positive}`. `loss_on=label` trains on that word,
`loss_on=row` on every token, as language modelling does. A sentence of the validation set counts as right if
the word for its label is likelier than the other; `transformers`' GPT-J gives the same accuracy on the model
that is left.

**Text.** `task=text` reads `.txt` (documents parted by blank lines) and `.jsonl` (`field=` holds the text),
packed or not, and cuts it at every `length=` tokens. All of it is held in memory, four bytes a token;
`held_out=` is measured on in the end.

**Rows.** `rows=packed` lays a micro-batch's rows end to end, each attending to itself alone, and computes
nothing of padding; `rows=padded` pads to the longest of the micro-batch, where rows of like length are
together. Losses and gradients are the same. The head scores only the tokens that count.

**LoRA.** With `lora_rank=` above 0 adapters of queries and values are trained and saved alone. What is left
is the merged `model` and `adapter`, in the names and settings of peft, which was not installed here to try:
a test merges the adapter by peft's rule, and finds the merged model.

**What is left.** `model/` beside the checkpoints: config.json, safetensors in fp32, and the tokenizer's
files. It is written from the last checkpoint, a tensor at a time. SageMaker packs the same as `model.tar.gz`.

## The article's techniques

AWS's article tunes GPT-J 6B on SST-2 with SageMaker's model-parallel library (SMP v1), which ended. The
same techniques stand here on PyTorch's own DTensor, pipelining and FSDP2:

{techniques}

Each of these layouts has the losses and gradient norms of one process to 1e-5 in fp32, and goes on from the
checkpoints of the others: on PyTorch 2.13.0, and on 2.8.0, which SageMaker's image holds. An older PyTorch is
refused for layouts. **None of it was run on GPUs or with the 6B weights.** SMP v2 has no pipelines, and
its tensor parallelism no GPT-J: `engine=smp` shards alone, and asks for `tensor=1`. It was never run with SMP
itself: what it calls is held to AWS's published page, and its own part trains, saves and resumes in tests as
the native engine does.
"""

_TIMES = """
## An epoch of SST-2 on one ml.p4d.24xlarge

| | Minutes | USD |
|---|--:|--:|
| the article, before | 58 | |
| the article, with SMP: tensor parallel, FP16 | under 10, 8 of them training | |
{times}

The article's rows were measured, and ours are **predicted: nobody has run them**. {band}
Those rows are of long sequences, mostly; with 16 tokens a row the error may be larger.

An epoch is 67,349 sentences in ours. The article does not say how many tokens one had there (its notebook
joins all sentences and cuts them every 1,024 tokens), so that the rows do not compare the two. Prices are
SageMaker's in {region} of {date}. Ours count 10 seconds to start: SageMaker takes minutes to start an
instance and to bring 24 GB of weights, and bills part of them. For other settings:

```sh
slipway estimate gptj_finetune --on sagemaker --set size=gptj-6b --set model=gpt-j-6b --set micro_batch=64
```
"""

# Settings of the 6B model that the page gives the time of.
_TIMED: tuple[Mapping[str, str], ...] = (
    {"tensor": "8", "micro_batch": "64"},
    {"tensor": "1", "sharded": "8", "micro_batch": "8"},
    {"tensor": "8", "micro_batch": "64", "lora_rank": "8"},
)

# The article's technique and SMP's name for it, ours, and what was run of it.
_TECHNIQUES = (
    ("tensor parallelism", "`tensor=`", "2 ranks"),
    ("pipeline parallelism, simple", "`pipeline=`, `pipeline_schedule=gpipe`", "2 ranks"),
    (
        "pipeline parallelism, interleaved backwards",
        "`pipeline_schedule=1f1b`; `interleaved` has several stages on a rank",
        "2 ranks",
    ),
    (
        "automatic partition (`auto_partition`)",
        "`partition=profiled`: rank 0 times the model's parts; the dearest stage is made as cheap as can be",
        "2 ranks",
    ),
    (
        "sharded data parallelism (MiCS)",
        "`sharded=`; what it leaves of the ranks are copies: a hybrid group, as MiCS has",
        "2 ranks, and 2 × 2",
    ),
    (
        "optimizer state sharding (`shard_optimizer_state`)",
        "`sharded_state=optimizer`: weights are gathered once a step; gradients and moments are shared out",
        "2 ranks",
    ),
    ("activation checkpointing", "`checkpoint_activations=layer`, or a `budget:` in GiB", "2 ranks"),
    ("activation offloading", "`offload_activations=yes`, with checkpointing", "2 ranks, to host memory"),
    ("FP16", "`precision=fp16`, with loss scaling; `bf16` needs none", "1 rank"),
    ("tensor × pipeline", "both settings", "2 × 2 ranks"),
)


def gptj_page() -> str:
    negative, positive = LABEL_WORDS
    told = {"{prompt}": PROMPT, "{negative}": negative, "{positive}": positive, "{techniques}": _techniques()}
    tasks = _TASKS
    for mark, text in told.items():
        tasks = tasks.replace(mark, text.strip())
    return _OPENING + "\n".join(_sizes()) + "\n" + tasks + _times()


def _times() -> str:
    place = find_place("ml.p4d.24xlarge", known_rates(), region=None, term=ON_DEMAND)
    rows = []
    for settings in _TIMED:
        given = {"size": "gptj-6b", "model": "gpt-j-6b", **settings}
        own = estimate(recipe_workload("gptj_finetune", given), place, 1, our_measurements())
        assert own.hours is not None, "an epoch of SST-2 has an end"
        words = ", ".join(f"`{name}={value}`" for name, value in settings.items())
        rows.append(f"| {words} | {own.hours * 60:.1f} | {own.usd:.2f} |")
    assert place.rate is not None, "the page prints its price"
    told = {
        "{times}": "\n".join(rows),
        "{band}": f"Nine of ten such predictions\nshould be within ± {own.band:.0%}.",
        "{region}": place.rate.region,
    }
    text = _TIMES
    for mark, words in {**told, "{date}": place.rate.date}.items():
        text = text.replace(mark, words)
    return text


def _techniques() -> str:
    head = "| The article (SMP) | Here | Run here, on processors |\n|---|---|---|\n"
    return head + "\n".join(f"| {' | '.join(row)} |" for row in _TECHNIQUES)


def _sizes() -> Iterator[str]:
    for size, known in KNOWN_SIZES.items():
        config = decode({"size": size} if size == DRAWN else {"size": size, "model": "gpt-j-6b"})
        yield (
            f"| `{size}` | {known.layers} × {known.hidden} | {config.tensor} | {config.length} | "
            f"{config.global_batch} | {config.micro_batch} | {config.rate:g} | "
            f"{'recomputed' if config.checkpoint_activations == 'layer' else 'kept'} |"
        )
