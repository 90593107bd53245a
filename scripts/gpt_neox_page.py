"""The page of the recipe gpt_neox: how it trains, and the article's table of tokens a dollar beside ours."""

from __future__ import annotations

from collections.abc import Iterator

from slipway.containers.recipes.gpt_neox.config import SIZES, decode
from slipway.jobs.estimate.estimates import estimate, tokens_per_dollar
from slipway.jobs.estimate.evidence.measurements import our_measurements
from slipway.jobs.estimate.evidence.tables import TABLES, Row, Table
from slipway.jobs.estimate.inputs.places import alone
from slipway.jobs.estimate.prices import known_rates
from slipway.jobs.estimate.work.workloads import find_workload
from slipway.jobs.words.catalogue.instances import instance_type

_OPENING = """\
# GPT-NeoX and Pythia

The recipe `gpt_neox` trains GPT-NeoX-20B, Pythia-6.9B, a tiny one, or any `config.json` of a GPT-NeoX on
tokens in Megatron's format. Its defaults are those of AWS's article on Trainium and its scripts:

| `size=` | Tensor × pipeline | Rows at a time | Batch | Tokens of a row | Learning rate | Falls to | Steps |
|---|---|--:|--:|--:|--:|--:|--:|
"""
_MIDDLE = """
Both use AdamW with betas of 0.9 and 0.95 and a weight decay of 0.01, warm up for one step in a hundred, and
fall by a cosine. `tokens=` decides how long a training is; copies of the model are what `tensor=` and
`pipeline=` leave of the ranks. On four `trn1.32xlarge` NeoX has four copies and Pythia sixteen.

```sh
slipway submit gpt_neox --on trn1 --nodes 4 --set size=neox-20b --set steps=3   # compile
slipway submit gpt_neox --on trn1 --nodes 4 --set size=neox-20b                 # train
slipway tensorboard gpt_neox
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

**Engines.** `engine=native` is PyTorch's own DTensor, pipelining and FSDP2: layouts give the losses and
gradient norms of one process to 1e-5 in fp32, on processors; this recipe was not tried on GPUs.
`engine=neuron`, the default on nodes with Trainium, is NxD of Neuron's SDK 2.28.1. **It was never run on
Trainium**: its calls are held to the signatures that NxD published, and its own part runs in tests on
stand-ins. It shards the optimizer over all copies (`sharded=` is refused), skips no step (`on_nan=skip` is
refused), and measures no held-out rows in a pipeline. Its checkpoints are those of every engine.

## Tokens a dollar

The article's table at its three-year price, and beside it what `slipway estimate` says of the same rows,
calibrated on the smallest run of each model. A run of yours tells its own in its progress lines and in
TensorBoard, at the on-demand price; `slipway calibrate JOB` makes the estimate start from it.

"""
_HEADINGS = (
    *("Model", "Tensor", "Pipeline", "Nodes", "USD/h", "Global batch", "Published rows/s"),
    *("Published tokens/USD", "Estimated rows/s", "Estimated tokens/USD"),
)
_TABLES = ("trn1/pythia-6.9b", "trn1/gpt-neox-20b")


def gpt_neox_page() -> str:
    rows = [_row(TABLES[name], row) for name in _TABLES for row in TABLES[name].rows]
    heading = f"| {' | '.join(_HEADINGS)} |\n|---|{'--:|' * (len(_HEADINGS) - 1)}\n"
    return "".join([_OPENING, *_sizes(), _MIDDLE, heading, *rows])


def _sizes() -> Iterator[str]:
    for size in SIZES:
        config = decode({"size": size})
        cells = (
            *(f"`{size}`", f"{config.tensor} × {config.pipeline}", config.micro_batch),
            *(config.global_batch, config.length, f"{config.rate:g}", f"{config.least_rate:g}"),
            f"{config.all_steps:,}",
        )
        yield f"| {' | '.join(map(str, cells))} |\n"


def _row(table: Table, row: Row) -> str:
    place = alone(instance_type(table.instance), known_rates(()), region=None, term="3-year")
    found = estimate(find_workload(table.model), place, row.nodes, our_measurements())
    rate, price = found.predicted_sequences_per_second, (table.usd_per_node_hour or 0.0) * row.nodes
    cells = (
        *(table.model, table.layout.tensor, table.layout.pipeline, row.nodes, f"{price:.2f}"),
        *(table.layout.global_batch, row.sequences_per_second, f"{row.tokens_per_dollar:,}"),
        *(f"{rate:.1f}", f"{tokens_per_dollar(rate, table.shape.sequence_length, price):,}"),
    )
    return f"| {' | '.join(map(str, cells))} |\n"
