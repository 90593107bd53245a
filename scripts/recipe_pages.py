"""The pages of the recipes that follow an article: how each trains, and the article's figures beside ours."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from slipway.containers.recipes.gpt_neox.config import SIZES
from slipway.containers.recipes.gpt_neox.config import decode as neox_config
from slipway.containers.recipes.gptj_finetune.config import DRAWN, KNOWN_SIZES
from slipway.containers.recipes.gptj_finetune.config import decode as gptj_config
from slipway.containers.recipes.gptj_finetune.data import LABEL_WORDS, PROMPT
from slipway.jobs.estimate.estimates import estimate, tokens_per_dollar
from slipway.jobs.estimate.evidence.measurements import our_measurements
from slipway.jobs.estimate.evidence.tables import TABLES, Row, Table
from slipway.jobs.estimate.inputs.places import alone, find_place
from slipway.jobs.estimate.inputs.workloads import recipe_workload
from slipway.jobs.estimate.prices import ON_DEMAND, known_rates
from slipway.jobs.estimate.work.workloads import find_workload
from slipway.jobs.words.catalogue.instances import instance_type

_OTHER_TOOLS = """
**Other tools.** A model folder (`{setting}`) may also be what `torch.distributed.checkpoint` saved, with
config.json and the tokenizer's files beside it: by the names of transformers' files, alone or below `model.`.
Its bytes are checked, and its pickle is read without running anything in it. The other way, on any machine
with PyTorch,

```sh
python -m slipway.containers.training.give CHECKPOINTS TARGET              # TARGET/model: safetensors
python -m slipway.containers.training.give CHECKPOINTS TARGET --form=dcp   # TARGET/dcp
```

writes the newest checkpoint that verifies, of a folder or an `s3://` address, a tensor at a time. `dcp` has
the weights and the optimizer's moments as PyTorch's `get_state_dict` names them, and no parameter groups:
load it with `allow_partial_load=True`. Moments of others are not read: a training that begins with their
weights begins with new ones.
"""
_NEOX = """\
# GPT-NeoX and Pythia

The recipe `gpt_neox` trains GPT-NeoX-20B, Pythia-6.9B, a tiny one, or any `config.json` of a GPT-NeoX on
tokens in Megatron's format. Its defaults are those of AWS's article on Trainium and its scripts:

| `size=` | Tensor × pipeline | Rows at a time | Batch | Tokens of a row | Learning rate | Falls to | Steps |
|---|---|--:|--:|--:|--:|--:|--:|
"""
_NEOX_TRAINS = """
Both use AdamW with betas of 0.9 and 0.95 and a weight decay of 0.01, warm up for one step in a hundred, and
fall by a cosine. `tokens=` decides how long a training is; copies of the model are what `tensor=` and
`pipeline=` leave of the ranks. On four `trn1.32xlarge` NeoX has four copies and Pythia sixteen.

```sh
slipway submit gpt_neox --on trn1 --nodes 4 --set size=neox-20b --set steps=3   # compile
slipway submit gpt_neox --on trn1 --nodes 4 --set size=neox-20b                 # train
slipway report tensorboard gpt_neox
```

**Compile first.** With `steps=` a job takes so many steps and keeps nothing of them but a record of what it
compiled for, beside the compile cache (`NEURON_COMPILE_CACHE_URL`). A run whose settings differ from all
records there is refused, with the difference by name; `compiled=any` runs it all the same. A cache in S3 is
not checked.

**Data.** `data=` is the path of `.bin` and `.idx` below the data folder, without these endings; the default
is what `prepare_tokens` leaves. `data=random` draws tokens from the seed, to compile and to measure speed
with. `held_out=` and `evaluate_every=` measure on other tokens. GPT-2's 50,257 tokens fit the published
models, which pad theirs to 50,432; for `size=tiny` set `vocabulary=50304`.

**Rotary positions.** `rotary=published` turns a quarter of each head; `rotary=whole` is the article's
trick, which gives the rest the speed zero and turns the whole head. Outputs and gradients are the same;
rows of queries and keys are kept in another order, so a checkpoint resumes with its own setting. Published
weights (`start_from_model=`) come and go in the published order with both. `scripts/bench decoder` says
which is faster: on one core of a processor the rotation of whole heads alone took 1.36 times as long, and a
training step the same (0.97). It was measured on no accelerator.

{other_tools}

**Engines.** `engine=native` is PyTorch's own DTensor, pipelining and FSDP2: layouts give the losses and
gradient norms of one process to 1e-5 in fp32, on processors; on one H200 a tiny training lost the same to
7e-7, and eight layers of 4096 reached [53 to 55 % of its peak](benchmarks.md#steps-on-a-gpu).
`engine=neuron`, the default on nodes with Trainium, is NxD of Neuron's SDK 2.28.1. **It was never run on
Trainium**: its calls are held to the signatures that NxD published, and its own part runs in tests on
stand-ins. It shards the optimizer over all copies (`sharded=` is refused), skips no step (`on_nan=skip` is
refused), and measures no held-out rows in a pipeline. Its checkpoints are those of every engine.

## Tokens a dollar

The article's table at its three-year price, and beside it what `slipway estimate` says of the same rows,
calibrated on the smallest run of each model. A run of yours tells its own in its progress lines and in
TensorBoard, at the on-demand price; `slipway calibrate JOB` makes the estimate start from it.

"""
_NEOX_HEADINGS = (
    *("Model", "Tensor", "Pipeline", "Nodes", "USD/h", "Global batch", "Published rows/s"),
    *("Published tokens/USD", "Estimated rows/s", "Estimated tokens/USD"),
)
_NEOX_TABLES = ("trn1/pythia-6.9b", "trn1/gpt-neox-20b")
_GPTJ = """\
# GPT-J

The recipe `gptj_finetune` tunes GPT-J 6B, a tiny one, or any published folder of a GPT-J: to tell the mood of
SST-2's sentences, or to go on writing any text. Nothing is fetched from a hub: `model=` is a folder of
safetensors below the data folder (a disk, FSx) or in S3, and `data=` likewise.

| `size=` | Layers × hidden | Tensor | Tokens of a row | Batch | Rows at a time | Learning rate | Layers |
|---|---|--:|--:|--:|--:|--:|---|
"""
_GPTJ_TASKS = """
```sh
slipway cluster upload sst2 --on sagemaker           # what each upload prints goes in place of s3://BUCKET/…
slipway cluster upload gpt-j-6b --on sagemaker
slipway cluster upload text --on sagemaker
slipway submit gptj_finetune --on sagemaker --nodes 1 --set tensor=2 --set pipeline=2 \\
  --set data=s3://BUCKET/datasets/sst2
slipway submit gptj_finetune --on sagemaker --nodes 1 --set size=gptj-6b \\
  --set model=s3://BUCKET/datasets/gpt-j-6b --set data=s3://BUCKET/datasets/sst2
slipway submit gptj_finetune --on sagemaker --nodes 1 --set size=gptj-6b --set task=text \\
  --set model=s3://BUCKET/datasets/gpt-j-6b --set data=s3://BUCKET/datasets/text
```

**Sentences.** `task=sst2` reads GLUE's own files, or what `datasets` writes as such, by
`split.to_csv("train.tsv", sep="\\t", index=False, quoting=3)`; its validation split is `dev.tsv`. A row is
the sentence, `{prompt}` and the word for its label: `{negative}` or `{positive}`. `loss_on=label` trains on
that word, `loss_on=row` on every token, as language modelling does. A sentence of the validation set counts
as right if the word for its label is likelier than the other; `transformers`' GPT-J gives the same accuracy
on the model that is left.

**Text.** `task=text` reads `.txt` (documents parted by blank lines) and `.jsonl` (`field=` holds the text),
packed or not, and cuts it at every `length=` tokens. The ranks of a node share the making of tokens, which
lie among the machine's temporary files and are mapped: text larger than memory trains. A folder that
`prepare_tokens` made with the model's own `tokenizer.json`, below the data folder, is mapped as it is.
`held_out=` is measured on in the end.

**Rows.** `rows=packed` lays a micro-batch's rows end to end, each attending to itself alone, and computes
nothing of padding; `rows=padded` pads to the longest of the micro-batch, where rows of like length are
together. Losses and gradients are the same. The head scores only the tokens that count.

**LoRA.** With `lora_rank=` above 0 adapters of queries and values are trained and saved alone. What is left
is the merged `model` and `adapter`, in the names and settings of peft, which was not installed here to try:
a test merges the adapter by peft's rule, and finds the merged model.

**What is left.** `model/` beside the checkpoints: config.json, safetensors in fp32, and the tokenizer's
files. It is written from the last checkpoint, a tensor at a time. SageMaker packs the same as `model.tar.gz`.

{other_tools}

## The article's techniques

AWS's article tunes GPT-J 6B on SST-2 with SageMaker's model-parallel library (SMP v1), which ended. The
same techniques stand here on PyTorch's own DTensor, pipelining and FSDP2:

{techniques}

Each of these layouts has the losses and gradient norms of one process to 1e-5 in fp32, and goes on from the
checkpoints of the others: [on PyTorch 2.13.0](layouts.md), which SageMaker's image holds. An older PyTorch is
refused for layouts. **None of it was run on several GPUs or with the 6B weights**; one H200 held a model of
their size, made up, with LoRA in 12.7 GiB. SMP v2 has no pipelines, and its tensor parallelism no GPT-J:
`engine=smp` shards alone, and asks for `tensor=1`. It was never run with SMP itself: what it calls is held to
AWS's published page, and its own part trains, saves and resumes in tests as the native engine does.
"""

_GPTJ_TIMES = """
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
_GPTJ_TIMED: tuple[Mapping[str, str], ...] = (
    {"tensor": "8", "micro_batch": "64"},
    {"tensor": "1", "sharded": "8", "micro_batch": "8"},
    {"tensor": "8", "micro_batch": "64", "lora_rank": "8"},
)

# The article's technique and SMP's name for it, ours, and what was run of it.
_GPTJ_TECHNIQUES = (
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


def gpt_neox_page() -> str:
    rows = [_neox_row(TABLES[name], row) for name in _NEOX_TABLES for row in TABLES[name].rows]
    heading = f"{_line(_NEOX_HEADINGS)}|---|{'--:|' * (len(_NEOX_HEADINGS) - 1)}\n"
    trains = _filled(_NEOX_TRAINS, {"{other_tools}": _other_tools("start_from_model=")})
    return "".join([_NEOX, *_neox_sizes(), trains, heading, *rows])


def _neox_sizes() -> Iterator[str]:
    for size in SIZES:
        config = neox_config({"size": size})
        cells = (
            *(f"`{size}`", f"{config.tensor} × {config.pipeline}", config.micro_batch),
            *(config.global_batch, config.length, f"{config.rate:g}", f"{config.least_rate:g}"),
            f"{config.all_steps:,}",
        )
        yield _line(cells)


def _neox_row(table: Table, row: Row) -> str:
    place = alone(instance_type(table.instance), known_rates(()), region=None, term="3-year")
    found = estimate(find_workload(table.model), place, row.nodes, our_measurements())
    rate, price = found.predicted_sequences_per_second, (table.usd_per_node_hour or 0.0) * row.nodes
    cells = (
        *(table.model, table.layout.tensor, table.layout.pipeline, row.nodes, f"{price:.2f}"),
        *(table.layout.global_batch, row.sequences_per_second, f"{row.tokens_per_dollar:,}"),
        *(f"{rate:.1f}", f"{tokens_per_dollar(rate, table.shape.sequence_length, price):,}"),
    )
    return _line(cells)


def gptj_page() -> str:
    negative, positive = LABEL_WORDS
    told = {
        "{prompt}": PROMPT,
        "{negative}": negative,
        "{positive}": positive,
        "{techniques}": _gptj_techniques(),
        "{other_tools}": _other_tools("model="),
    }
    tasks = _filled(_GPTJ_TASKS, {mark: text.strip() for mark, text in told.items()})
    return "".join([_GPTJ, *_gptj_sizes(), tasks, _gptj_times()])


def _other_tools(setting: str) -> str:
    return _filled(_OTHER_TOOLS, {"{setting}": setting}).strip()


def _gptj_times() -> str:
    place = find_place("ml.p4d.24xlarge", known_rates(), region=None, term=ON_DEMAND)
    rows = []
    for settings in _GPTJ_TIMED:
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
        "{date}": place.rate.date,
    }
    return _filled(_GPTJ_TIMES, told)


def _gptj_techniques() -> str:
    head = "| The article (SMP) | Here | Run here, on processors |\n|---|---|---|\n"
    return head + "".join(map(_line, _GPTJ_TECHNIQUES))


def _gptj_sizes() -> Iterator[str]:
    for size, known in KNOWN_SIZES.items():
        config = gptj_config({"size": size} if size == DRAWN else {"size": size, "model": "gpt-j-6b"})
        cells = (
            *(f"`{size}`", f"{known.layers} × {known.hidden}", config.tensor, config.length),
            *(config.global_batch, config.micro_batch, f"{config.rate:g}"),
            "recomputed" if config.checkpoint_activations == "layer" else "kept",
        )
        yield _line(cells)


def _line(cells: Iterable[object]) -> str:
    return f"| {' | '.join(map(str, cells))} |\n"


def _filled(text: str, told: Mapping[str, str]) -> str:
    for mark, words in told.items():
        text = text.replace(mark, words)
    return text
