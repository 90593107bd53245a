"""What run the numbers of an estimate are of: its sequences, batches, layout and end, and how it differs from
the article's. A recipe's article run is one row of ARTICLE_RUNS.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from slipway.jobs.estimate.estimates import Estimate
    from slipway.jobs.estimate.work.workloads import Workload

# The settings that make a recipe the run of which its article printed rates, and which run that is.
ARTICLE_RUNS: Mapping[str, Mapping[str, str]] = {
    "bert_pretrain": {"BERT-Large": "size=large", "BERT-1.5B": "size=1.5b zero=1"},
    "glue_finetune": {"MRPC": "model=models/bert-base-cased"},
    "gpt_neox": {
        "GPT-NeoX 20B": "size=neox-20b global_batch=16384",
        "Pythia 6.9B": "size=pythia-6.9b global_batch=1024",
    },
}
_DEGREES = (("tensor", "tensor {}"), ("pipeline", "{} pipeline stages"))


def run_words(workload: Workload, found: Sequence[Estimate]) -> str:
    """Describe the run: what a recipe with these settings trains, or what the model's name stands for."""
    layout = found[0].layout
    steps = [f"{own.sequences_per_step:,} a step on {own.nodes} node{'s' * (own.nodes > 1)}" for own in found]
    is_fixed = len({own.sequences_per_step for own in found}) == 1 < len(found)
    words = [
        f"sequences of {workload.model.sequence_length:,} tokens",
        f"micro-batch {layout.micro_batch:,}",
        f"{found[0].sequences_per_step:,} a step"
        if is_fixed
        else " to ".join(dict.fromkeys((steps[0], steps[-1]))),
        *(said.format(degree) for name, said in _DEGREES if (degree := getattr(layout, name)) > 1),
        "no sharding" if layout.sharding == "none" else layout.sharding,
        f"{layout.checkpointing} checkpointing of activations" if layout.checkpointing != "none" else "",
        "optimizer offloaded" if layout.offload else "",
        f"{workload.epochs} epochs" if workload.epochs > 1 else "",
    ]
    return ", ".join(word for word in words if word)


def differs_from_article(workload: Workload) -> Iterator[str]:
    """Say that a recipe's run is not the article's, and how to ask for that one."""
    from slipway.jobs.estimate.inputs.workloads import workload_of

    runs = ARTICLE_RUNS.get(workload.name, {})
    if not runs:
        return
    for settings in runs.values():
        theirs = workload_of(workload.name, dict(each.split("=", 1) for each in settings.split()))
        if (theirs.model, theirs.layout) == (workload.model, workload.layout):
            return
    said = "; ".join(f"{name}: {_options(settings)}" for name, settings in runs.items())
    yield f"this is not the run that the article measured; that is: {said}"


def _options(settings: str) -> str:
    return " ".join(f"--set {each}" for each in settings.split())
