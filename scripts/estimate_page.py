"""The page that says how far off the estimate is, counted again from every published row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from statistics import median

from slipway.jobs.estimate.evidence.bands import (
    NEAR,
    Band,
    ErrorsOfWord,
    bands_of,
    errors_by_word,
    left_out,
    median_width,
)
from slipway.jobs.estimate.evidence.published_rows import COLUMNS, RATES
from slipway.jobs.estimate.evidence.trials import Trial, trials

_OPENING = """\
# How far off the estimate is

Slipway predicts each row that somebody published twice: first as if nothing of its table were known, then as
if one row of its table were known, the smallest run of the same model. What the estimate would have called
itself is the row's kind:

- *measured*: another row has the same configuration; its rate is compared with this one's;
- *calibrated*: the same model at the same sequence length was measured on the same accelerator;
- *predicted*: neither. The nearest row on the accelerator stands in, or the accelerator's prior.

With each estimate a range is told in which nine of ten such rows should lie. It is as wide as the distance
from the nearest measurement makes it: somebody else's machines, width, length, devices, micro-batch, engine,
checkpointing or mask ([spread.py](../jobs/estimate/work/spread.py)). The last columns judge the ranges.

"""
_BY_WORD = """\
| Kind | Rows | Off on average | In the median | At nine of ten | In the range told |
|---|--:|--:|--:|--:|--:|
"""
_BY_DEVICE = f"""
| Kind | Device | Rows | Tables | Within {NEAR:.0%} | Nine of ten within | Told (median) | In the range told |
|---|---|--:|--:|--:|--:|--:|--:|
"""
_MIDDLE = f"""
## By table

| Published in | Device | Kind | Rows | Within {NEAR:.0%} | Median error | Largest error |
|---|---|---|--:|--:|--:|--:|
"""
_END = """
## What it was fitted on, and where it does not hold

The model's few numbers ([step.py](../jobs/estimate/work/step.py),
[hardware.py](../jobs/estimate/hardware.py))
and the weights of the ranges were fitted to all of these rows once, not again without each table. What each
of the last terms was worth, in the mean error of the rows above without it and with it:

| Term | Source | Rows | Without | With |
|---|---|--:|--:|--:|
| parts of a tensor repeat norms and residuals: 0.15 of the time beside matrices | (1) | 400 | 17.2% | 10.2% |
| a stage of a pipeline waits at each micro-batch: 10 ms | (1) | | | in the last |
| both | the others | 436 | 10.1% | 9.9% |
| full sharding: a ring over all nodes for each layer, 20 µs a node | llm-foundry | | | in the last |
| up to four rows about as near are taken together, not one | all | 436 | 9.8% | 9.3% |

(1) Hagemann et al. 2023, Llama of 13B to 65B parameters on 32 to 256 A100: 202 runs, most of them tried
twice.

ZeRO-3 is told to hide as little as ZeRO-2, which is no fit: no row has it.

A range is as wide as nine tenths of the tables' errors ask for, each error in units of its row's distance and
a table counting as one ([bands.py](../jobs/estimate/evidence/bands.py)).
{judged}
Of mixtures of experts, LoRA and an encoder beside a decoder nobody published a rate that could be read: their
ranges end 2, 1.35 and 1.35 times farther, which are guesses.

- GPUs: most rows are llm-foundry's, of FSDP. Plain data parallelism on many nodes is one table.
- In NVIDIA's tables, BERT-Large does only 2.6 to 3 times fewer sequences at 512 tokens than at 128, as if
  they were shorter than 512. The rows count all the same.
- Fine-tuning GPT-2 on Gaudi was far slower than anything else there. The ranges do not hold it.
- Processors: two sources, and of AMX two rows. Gaudi 2, Trainium 2, Blackwell, L4, L40S and A10G have no row:
  their estimates are guesses, and their ranges say so.
- Hagemann's runs trained with sequence parallelism and without. A layout does not say which, so estimates of
  tensor parallelism lie between the two.
- ZeRO-3, hybrid sharding and GPipe stand on no row of their own, interleaved stages on three. Context and
  expert parallelism are refused.

The rows are in [tables.py](../jobs/estimate/evidence/tables.py) (the articles that Slipway follows) and
[other_rows.csv](../jobs/estimate/evidence/other_rows.csv) (other people's). Rows that an estimate cannot
be asked for are left out: those that do not print their sequence length or shape.
"""

_RATES_OF_YOUR_OWN = """
## Rates of your own

`slipway calibrate --published FILE.csv` lets estimates stand on rates that somebody published, or that you
measured where Slipway did not run; `calibrate` in Python does the same. A file is read whole or not at all,
and each bad row is named with its line, column, value and what is allowed. A rate is refused only beyond
what its devices can compute at their full peak and a quarter more. Each estimate then says on which row it
stands and in what that differs.

The rows are kept in `published.csv` in `$XDG_CONFIG_HOME/slipway` (or in the file that `SLIPWAY_PUBLISHED`
names); deleting a line undoes it. other_rows.csv has the same columns:

| Column | Allowed |
|---|---|
"""
_OF_COLUMNS = """
A model of ours needs no sizes. Another one needs `layers`, `hidden_size` and `sequence_length`; the rest is
as usual for its kind, a decoder unless `causal` is `no`. `devices` is for runs on a part of a node, `own`
says that these are your machines, which makes the range narrower. `precision` chooses the peak that a rate
is compared with.
"""


def estimate_page() -> str:
    found = list(trials())
    bands = [_band_line(band) for band in bands_of(found) if band.rows]
    errors = [_errors_line(each) for each in errors_by_word(found)]
    return "".join(
        [
            *(_OPENING, _BY_WORD, *errors, _BY_DEVICE, *bands, _MIDDLE, *_table_lines(found)),
            *(_END.format(judged=_judged(found)), _own_rates()),
        ]
    )


def _judged(found: Sequence[Trial]) -> str:
    own = left_out(found)
    return (
        f"With the width that all other tables give, ranges held {own.held} of {own.rows} rows, "
        f"{own.held / own.rows:.1%}, and\n{own.held_of_a_table:.1%} of a table's rows on average; the "
        f"median range is ± {median_width(found):.0%}."
    )


def _own_rates() -> str:
    lines = [f"| `{name}`{_needed(name)} | {column.allowed} |\n" for name, column in COLUMNS.items()]
    return "".join([_RATES_OF_YOUR_OWN, *lines, _OF_COLUMNS])


def _needed(name: str) -> str:
    if name in RATES:
        return ", one of the two"
    return ", required" if COLUMNS[name].is_required else ""


def _errors_line(own: ErrorsOfWord) -> str:
    shares = f"{own.mean:.1%} | {own.median:.1%} | {own.ninth:.1%}"
    return f"| {own.word} | {own.rows} | {shares} | {own.held} of {own.rows} |\n"


def _band_line(band: Band) -> str:
    within = "too few" if band.within is None else f"± {band.within:.0%}"
    held = f"± {band.told:.0%} | {band.held} of {band.rows}"
    near = f"{band.near} of {band.rows}"
    return f"| {band.word} | {band.device} | {band.rows} | {band.tables} | {near} | {within} | {held} |\n"


def _table_lines(found: Sequence[Trial]) -> Iterator[str]:
    def key(trial: Trial) -> tuple[str, str, str]:
        return trial.table, trial.device, trial.word

    for where, same in groupby(sorted(found, key=key), key):
        errors = sorted((each.error for each in same), key=abs)
        near = sum(abs(error) <= NEAR for error in errors)
        cells = [
            where[0].replace(":", "/", 1),
            *where[1:],
            str(len(errors)),
            str(near),
            f"{median(errors):+.1%}",
            f"{errors[-1]:+.1%}",
        ]
        yield f"| {' | '.join(cells)} |\n"
