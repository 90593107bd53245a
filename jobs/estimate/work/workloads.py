"""The jobs for which an estimate can be asked by name: what is trained, how it is split, and for how long.

A model of models.py that has no row here is estimated, too, one sequence at a time and with no end.
jobs/estimate/inputs/workloads.py turns a recipe of containers/recipes into one of these.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from difflib import get_close_matches

from slipway.jobs.estimate.errors import CannotEstimate
from slipway.jobs.estimate.evidence.tables import TABLES
from slipway.jobs.estimate.work.models import MODELS, length_name
from slipway.jobs.estimate.work.shapes import Layout, Model
from slipway.jobs.estimate.work.work import adapted_share


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    name: str
    model_name: str  # by which calibrations are found
    model: Model
    layout: Layout
    sequences: int | None = None  # to the end of the job; None: unknown
    epochs: int = 1  # of equal size in these sequences: the last step of each may be smaller
    steps: int | None = None  # the job's end, whatever its sequences; alone, its length
    until: str = ""  # the end in words, with its source
    assumed: str = ""  # not published, and therefore assumed
    task: str = ""  # whose measurements of the model are preferred; "": those of its own name
    deals_batch: bool = False  # divides a rank's share into the largest micro-batches up to the layout's
    devices: tuple[str, ...] = ()  # of jobs/words/catalogue/instances.py; (): any


def _published(table: str, sequences: int | None, until: str, *, assumed: str = "") -> Workload:
    own = TABLES[table]
    return Workload(
        name=table.rpartition("/")[2],
        model_name=own.model,
        model=own.shape,
        layout=own.layout,
        sequences=sequences,
        epochs=own.job.epochs if own.job else 1,
        until=until,
        assumed=assumed,
    )


SST2_EXAMPLES = 67_349  # GLUE's own count of training sentences
SST2_LENGTH = 128  # of a padded sentence; the article does not say
_MICRO_BATCH = "micro-batch of 64 and gradients in 32 bit (the article gives the global batch)"
_PHASE_1 = "phase 1 of BERT with LAMB: 7,038 steps of 65,536 (NVIDIA DeepLearningExamples)"
_PHASE_2 = "phase 2 of BERT with LAMB: 1,563 steps of 32,768 (NVIDIA DeepLearningExamples)"
_EPOCH = "one epoch of SST-2: 67,349 sentences (GLUE)"

WORKLOADS: Mapping[str, Workload] = {
    each.name: each
    for each in (
        _published("dl1/bert-large", 7038 * 65_536, _PHASE_1, assumed=_MICRO_BATCH),
        _published(
            "dl1/bert-1.5b",
            6900 * 24_576,
            "the article's training: 25 hours on 64 accelerators, 6,900 steps of 24,576",
        ),
        _published(
            "trn1/pythia-6.9b",
            143_000 * 1024,
            "143,000 steps of 1,024 sequences (Pythia, Biderman et al. 2023)",
        ),
        _published(
            "trn1/gpt-neox-20b",
            150_000 * 1538,
            "150,000 steps of 1,538 sequences (GPT-NeoX, Black et al. 2022)",
        ),
        _published("c6i/mrpc", 3 * 3668, "three epochs of MRPC: 3,668 pairs (GLUE)"),
        _published("c6i/qqp", 3 * 363_846, "three epochs of QQP: 363,846 pairs (GLUE)"),
        Workload(
            name="bert-large-512",
            model_name="bert-large-512",
            model=MODELS["bert-large-512"],
            layout=Layout(micro_batch=8, global_batch=32_768, gradient_bytes=4),
            sequences=1563 * 32_768,
            until=_PHASE_2,
            assumed="micro-batch of 8",
        ),
        Workload(
            name="gpt-j-6b-sst2",
            model_name=length_name("gpt-j-6b", SST2_LENGTH),
            model=replace(MODELS["gpt-j-6b"], sequence_length=SST2_LENGTH, head_share=0.0),
            layout=Layout(micro_batch=8, sharding="fsdp", checkpointing="full"),
            sequences=SST2_EXAMPLES,
            until=_EPOCH,
            assumed=f"sentences padded to {SST2_LENGTH} tokens, 8 at a time (the article says neither)",
        ),
    )
}

_OF_LAYOUT = frozenset(field.name for field in fields(Layout))
_WORDS = frozenset({"schedule", "sharding", "checkpointing"})
_FRACTIONS = frozenset({name for name in _OF_LAYOUT if name.endswith("_bytes")})
_TRUTHS = frozenset({"offload", "sequence_parallel", "fused"})
# The two ways to set a batch: setting one removes the other.
_OTHER_BATCH = {"global_batch": "accumulation_steps", "accumulation_steps": "global_batch"}
SETTINGS = (*sorted(_OF_LAYOUT), "sequence_length", "sequences")


def find_workload(name: str) -> Workload:
    if name in WORKLOADS:
        return WORKLOADS[name]
    if name in MODELS:
        return Workload(name=name, model_name=name, model=MODELS[name], layout=Layout(micro_batch=1))
    known = names()
    close = get_close_matches(name, known, n=1)
    raise CannotEstimate(
        f"'{name}' is neither a recipe nor a model",
        hint=f"did you mean {close[0]}?" if close else f"known are {', '.join(known)}",
    )


def names() -> tuple[str, ...]:
    return tuple(dict.fromkeys([*WORKLOADS, *MODELS]))


def with_settings(workload: Workload, settings: Mapping[str, str]) -> Workload:
    """Apply `--set key=value` to a model: fields of its layout, sequence_length, sequences."""
    for name, text in settings.items():
        workload = _with_setting(workload, name, text)
    return workload


def at_length(workload: Workload, sequence_length: int) -> Workload:
    """Return the workload with sequences of this length, which calibration treats as another model."""
    return replace(
        workload,
        model_name=length_name(workload.model_name, sequence_length),
        model=replace(workload.model, sequence_length=sequence_length),
    )


def _with_setting(workload: Workload, name: str, text: str) -> Workload:
    if name == "sequence_length":
        return at_length(workload, whole(name, text))
    if name == "sequences":
        return replace(workload, sequences=whole(name, text), until="as asked")
    if name not in _OF_LAYOUT:
        close = get_close_matches(name, SETTINGS, n=1)
        raise CannotEstimate(
            f"--set {name}: there is no such setting",
            hint=f"did you mean {close[0]}?" if close else f"there are {', '.join(SETTINGS)}",
        )
    changed: dict[str, object] = {name: _read(name, text)}
    if name in _OTHER_BATCH:
        changed[_OTHER_BATCH[name]] = None
    return replace(workload, layout=replace(workload.layout, **changed))  # type: ignore[arg-type]  # Layout checks


def _read(name: str, text: str) -> object:
    if name in _WORDS:
        return text
    if name in _TRUTHS:
        return truth(name, text)
    return number(name, text) if name in _FRACTIONS else whole(name, text)


# Reads one setting of an estimate; each mistake names the setting, its value and what is allowed.


def whole(name: str, text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        raise CannotEstimate(f"{name} is {text!r}; it must be a whole number", hint="such as 16") from None
    if value < 1:
        raise CannotEstimate(f"{name} is {value}; it must be 1 or more", hint="such as 16")
    return value


def number(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise CannotEstimate(f"{name} is {text!r}; it must be a number", hint="such as 2") from None


def truth(name: str, text: str) -> bool:
    if text not in ("true", "false"):
        raise CannotEstimate(f"{name} is {text!r}; allowed are true, false", hint=f"write {name}=true")
    return text == "true"


# Sizes that the user gives, for a model of ours or for one that has only sizes: `--set layers=32`. Another
# size is one row of SIZES.
SIZES: Mapping[str, tuple[str, Callable[[str, str], object]]] = {
    "layers": ("layers", whole),
    "hidden": ("hidden_size", whole),
    "heads": ("heads", whole),
    "key_value_heads": ("key_value_heads", whole),
    "feed_forward": ("feed_forward", whole),
    "vocabulary": ("vocabulary", whole),
    "gated": ("gated", truth),
    "parameters": ("parameters", number),
}
LORA_RANK = "lora_rank"
_HEAD_SIZE, _NARROW_HEAD_SIZE, _NARROW = 128, 64, 2048
_DECODERS_LENGTH, _DECODERS_VOCABULARY = 2048, 50_304
_ENCODERS_LENGTH, _ENCODERS_VOCABULARY, _MASKED = 512, 30_522, 0.15

# Llama's norms and gates are some ten kernels in PyTorch unless compiled; a layer norm is one.
EAGER_WORDS = "norms and gates run kernel by kernel, --set fused=true where they are compiled"

# Names of models that are described by their sizes alone, and whether a later token is hidden from earlier.
BY_SIZES: Mapping[str, bool] = {"decoder": True, "encoder": False}


def described(kind: str, settings: Mapping[str, str]) -> Workload:
    """Describe a model that has only the given sizes; the others are the usual ones of its kind."""
    missing = [name for name in ("layers", "hidden") if name not in settings]
    if missing:
        raise CannotEstimate(
            f"{kind} is a model of the sizes that you give, and {missing[0]} is missing",
            hint=f"slipway estimate {kind} --set layers=32 --set hidden=4096 --on TYPE",
        )
    hidden, is_causal = whole("hidden", settings["hidden"]), BY_SIZES[kind]
    model = Model(
        layers=whole("layers", settings["layers"]),
        hidden_size=hidden,
        heads=_usual_heads(hidden),
        feed_forward=4 * hidden,
        vocabulary=_DECODERS_VOCABULARY if is_causal else _ENCODERS_VOCABULARY,
        sequence_length=_DECODERS_LENGTH if is_causal else _ENCODERS_LENGTH,
        causal=is_causal,
        head_share=1.0 if is_causal else _MASKED,
    )
    start = Workload(name=kind, model_name=kind, model=model, layout=Layout(micro_batch=1))
    sized = with_sizes(start, settings)
    shape = sized.model
    said = f"{shape.heads} heads, feed-forward {shape.feed_forward:,}, vocabulary {shape.vocabulary:,}"
    said += ", where you did not say so" + (f"; {EAGER_WORDS}" if shape.gated else "")
    return replace(sized, layout=replace(sized.layout, fused=not shape.gated), assumed=said)


def with_sizes(workload: Workload, settings: Mapping[str, str]) -> Workload:
    """Return the workload with the sizes among these settings: another model, which nobody has measured."""
    given = {SIZES[name][0]: SIZES[name][1](name, text) for name, text in settings.items() if name in SIZES}
    model = workload.model
    if given:
        hidden = given.get("hidden_size", model.hidden_size)
        assert isinstance(hidden, int)
        if hidden != model.hidden_size:
            scaled = max(1, round(model.feed_forward * hidden / model.hidden_size))
            given = {"heads": _usual_heads(hidden), "feed_forward": scaled, **given}
        if "heads" in given:
            given = {"key_value_heads": None, **given}
        model = replace(model, **{"parameters": None, **given})  # type: ignore[arg-type]  # SIZES reads each
    if LORA_RANK in settings:
        model = replace(model, trained_share=adapted_share(model, whole(LORA_RANK, settings[LORA_RANK])))
    changed = ",".join(f"{field.name}={getattr(model, field.name)}" for field in fields(Model))
    is_same = model == workload.model
    return workload if is_same else replace(workload, model=model, model_name=f"of sizes {changed}")


def _usual_heads(hidden: int) -> int:
    size = _HEAD_SIZE if hidden >= _NARROW else _NARROW_HEAD_SIZE
    return hidden // size if hidden % size == 0 else 1
