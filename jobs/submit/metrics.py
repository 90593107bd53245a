"""Reads metrics by step from the log lines of a training, whichever library printed them. Pure.

Another line format is one function in _FORMS; a library's name for a metric is a row of _NAMES.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

LOSS, RATE = "loss", "sequences_per_second"
HELD_OUT = "eval_"  # prefix of an evaluation's name
_HELD_OUT = ("eval", "val", "valid", "validation")

_TRAINING = "train/"  # prefix that the Trainer adds for TensorBoard
_NUMBER = r"[-+]?(?:[0-9][0-9,]*(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?|[-+]?(?:nan|inf(?:inity)?)"
_RANK = "[0] "
_OTHERS = re.compile(r"\[(?:node [0-9]+|[1-9][0-9]{0,4})\] |\[run\] ")  # other ranks' lines, and launchers'
_AT_ONCE = 20  # lines within which all ranks report the same start
_NEAR = 4  # lines within which a progress bar is drawn again
_START = re.compile(r"no checkpoint in |resuming from step ")
_LONGEST = 8192  # characters; a longer line reports no step

# Slipway's own name for each metric, by a library's; other metrics keep their printed names.
_NAMES: Mapping[str, str] = {
    "lr": "learning_rate",
    "learning rate": "learning_rate",
    "|g|": "gradient_norm",
    "grad norm": "gradient_norm",
    "grad_norm": "gradient_norm",
    "lm loss": LOSS,
    "train loss": LOSS,
    "train/loss": LOSS,
    "train_loss": LOSS,
    "loss_step": LOSS,
    "train_loss_step": LOSS,
    "training_loss": LOSS,
    "samples_per_second": RATE,
    "samples/sec": RATE,
    "examples_per_second": RATE,
    "CurrSamplesPerSec": RATE,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedStep:
    """Hold what one step reported, in one line or several."""

    step: int  # if no line names one, the number of the report
    has_step: bool = True
    steps: int | None = None
    epoch: float | None = None
    attempt: int
    metrics: Mapping[str, float]  # evaluations have the prefix HELD_OUT
    line: int = 0  # number of its first line, from 0


class _Said(NamedTuple):
    """Hold what one line says; None where it does not say it."""

    step: int | None
    steps: int | None
    epoch: float | None
    metrics: Mapping[str, float]


def read(lines: Iterable[str]) -> list[LoggedStep]:
    """Return what each step reported, in order; of a step that was trained again, the later attempt's."""
    steps: dict[float, LoggedStep] = {}
    for found in _each(list(lines)):
        place: float = found.step if found.has_step or found.epoch is None else found.epoch
        before = steps.get(place)
        if before is not None and before.attempt == found.attempt:
            metrics = {**before.metrics, **found.metrics}
            steps[place] = replace(before, metrics=metrics, steps=before.steps or found.steps)
        elif found.has_step:
            steps[place] = found
        else:  # this attempt replaces all that an earlier one reported from here on
            steps = {where: each for where, each in steps.items() if where < place}
            steps[place] = replace(found, step=len(steps) + 1)
    return [steps[place] for place in sorted(steps)]


@dataclass(slots=True)
class _Place:
    """Follow the attempt and step of the training, line by line."""

    attempt: int = 0
    bar: tuple[int, int] | None = None  # done and total of the training's own progress bar
    step: int | None = None  # the last one named
    _begun: tuple[str, int] = "", 0  # the line that began the attempt, and its number
    _before: float = -1.0
    _epochs: tuple[float, float] | None = None  # the first and the last
    _raw: int = -1  # as last printed
    _an_epoch: int = 0  # steps in an epoch, where each epoch counts from its own start

    def begin(self, line: str, number: int) -> None:
        """Count a new attempt once, though every rank reports its start."""
        is_new = line != self._begun[0] or number > self._begun[1] + _AT_ONCE or self._before >= 0
        self._begun = line, number
        if is_new:
            self.attempt, self._before, self._raw = self.attempt + 1, -1.0, -1

    def see_bar(self, done: int, every: int) -> None:
        """Take the first unnamed bar for the training's; bars of evaluations have another length."""
        if self.bar is None or self.bar[1] == every:
            self.bar = done, every

    def locate(self, logged: _Said) -> _Said:
        """Return the reading with its step counted over all epochs, or at the last step if it names none."""
        if logged.step is None:
            return logged if self.step is None else logged._replace(step=self.step)
        first, last = self._epochs or (logged.epoch, logged.epoch)
        if logged.epoch is not None and first is not None and last is not None:
            if logged.step < self._raw and logged.epoch > last:
                self._an_epoch = self._an_epoch or logged.steps or self._raw
            self._epochs = min(first, logged.epoch), logged.epoch
        self._raw = logged.step
        if self._an_epoch and logged.epoch is not None and self._epochs is not None:
            passed = int(logged.epoch - self._epochs[0])
            logged = logged._replace(step=passed * self._an_epoch + self._raw, steps=None)
        self.step = logged.step
        return logged

    def attempt_at(self, where: float) -> int:
        """Return the attempt; a step that goes back without a restart line starts another."""
        self.attempt = max(self.attempt, 1) + (where < self._before)
        self._before = where
        return self.attempt


def _each(lines: Sequence[str]) -> Iterator[LoggedStep]:
    place = _Place()
    for number, text in enumerate(lines):
        if len(text) > _LONGEST or _OTHERS.match(text):
            continue
        line = text.removeprefix(_RANK)
        if _START.match(line):
            place.begin(line, number)
        if (bar := _bare_bar(line)) is not None:
            place.see_bar(*bar)
        logged = next((said for form in _FORMS if (said := form(line)) is not None), None)
        if logged is None:
            continue
        if logged.step is None and place.bar is not None:
            done, every = _bar_beside(lines[number + 1 : number + 1 + _NEAR], place.bar)
            logged = logged._replace(step=done, steps=every)
        logged = place.locate(logged)
        where = logged.epoch if logged.step is None else logged.step
        if where is None:
            continue
        yield LoggedStep(
            step=logged.step or 0,
            has_step=logged.step is not None,
            steps=logged.steps,
            epoch=logged.epoch,
            attempt=place.attempt_at(where),
            metrics=logged.metrics,
            line=number,
        )


# Records: transformers' Trainer and TRL print a dict; programs that follow our contract print JSON.
_RECORD = re.compile(r"(?P<before>[^{]{0,200})(?P<pairs>\{.*\})\s*")
_PAIR = re.compile(
    rf"""['"](?P<name>[A-Za-z0-9_./@ -]{{1,100}})['"]\s*:\s*['"]?(?P<value>{_NUMBER})['"]?\s*(?=[,}}])""",
    re.IGNORECASE,
)
_SUMMARY = "train_runtime"  # key of the summary of a whole training, whose loss is a mean of all steps
_STEPS = ("step", "global_step", "iteration")
_ENDS = ("steps", "max_steps", "total_steps")


def _record(line: str) -> _Said | None:
    found = _RECORD.fullmatch(line)
    if found is None:
        return None
    values = {pair["name"]: _value(pair["value"]) for pair in _PAIR.finditer(found["pairs"])}
    step = next((values.pop(name) for name in _STEPS if name in values), None)
    steps = next((values.pop(name) for name in _ENDS if name in values), None)
    epoch = values.pop("epoch", None)
    if epoch is None and (before := _EPOCH.search(found["before"])):
        epoch = float(before["epoch"])
    if epoch is not None and not math.isfinite(epoch):
        epoch = None
    if not values or (_whole(step) is None and epoch is None):
        return None
    if _SUMMARY in values:
        return _Said(_whole(step), _whole(steps), epoch, dict(values))
    return _Said(_whole(step), _whole(steps), epoch, _named(values))


# tqdm's bars: Lightning writes metrics after the bar; the Trainer's has none, but tells the record's step.
_BAR = re.compile(
    r"\s*(?P<name>[^|]{0,200}?)[: ]*[0-9]{1,3}%\|[^|]*\|\s*(?P<done>[0-9]{1,15})/(?P<all>[0-9]{1,15}) "
    r"\[[^,\]]*(?:,\s*(?P<rate>[^,\]]*))?(?:,\s*(?P<more>[^\]]*))?\]"
)
_EPOCH = re.compile(r"\bepoch[ =:\[]*(?P<epoch>[0-9]{1,15}(?:\.[0-9]+)?)", re.IGNORECASE)
_BAR_PAIR = re.compile(rf"(?P<name>[A-Za-z0-9_./@-]+)=(?P<value>{_NUMBER})(?=[,\s]|$)", re.IGNORECASE)
_NO_METRIC = ("v_num",)  # Lightning's number of the run


def _bar(line: str) -> _Said | None:
    found = _BAR.match(line)
    if found is None or not found["more"] or found["done"] == "0":
        return None
    values = {pair["name"]: _value(pair["value"]) for pair in _BAR_PAIR.finditer(found["more"])}
    named = _named({name: value for name, value in values.items() if name not in _NO_METRIC})
    if not any(LOSS in name for name in named):
        return None
    done, every = int(found["done"]), int(found["all"])
    epoch = _EPOCH.search(found["name"])
    begun = int(float(epoch["epoch"])) * every if epoch else 0
    return _Said(begun + done, None if epoch else every, begun / every if epoch and every else None, named)


def _bare_bar(line: str) -> tuple[int, int] | None:
    found = _BAR.match(line)
    return None if found is None or found["name"] else (int(found["done"]), int(found["all"]))


def _bar_beside(following: Sequence[str], bar: tuple[int, int]) -> tuple[int, int]:
    """Return the same bar as drawn again just after a record, if it was: the one before may be stale."""
    for text in following:
        found = _bare_bar(text.removeprefix(_RANK))
        if found is not None and found[1] == bar[1]:
            return found
    return bar


# Two lines of DeepSpeed name a step without its loss: engine.py's _report_progress, and utils/timer.py.
_DEEPSPEED = re.compile(
    rf"\bstep=(?P<step>[0-9]{{1,15}}), skipped=[0-9]+, lr=\[+(?P<lr>{_NUMBER})"
    rf"|\bglobal_step=(?P<timed>[0-9]{{1,15}}), .*\bCurrSamplesPerSec=(?P<rate>{_NUMBER})"
)


def _deepspeed(line: str) -> _Said | None:
    found = _DEEPSPEED.search(line)
    if found is None:
        return None
    if found["step"]:
        return _Said(int(found["step"]), None, None, {"learning_rate": _value(found["lr"])})
    return _Said(int(found["timed"]), None, None, {RATE: _value(found["rate"])})


# Words: `step 10/200  loss 0.53`, as our recipes, plain PyTorch, nanoGPT, Megatron and DeepSpeed's pipeline
# engine print it. A line counts if it gives a number for a loss and names a step or an epoch, or if it begins
# with the loss and an earlier line named the step, as DeepSpeed's do.
_STEP = re.compile(
    r"\b(?:global[_ ]?step|iteration|iter|step)s?\b[ =:\[]+"
    r"(?P<step>[0-9]{1,15})(?:\s*/\s*(?P<steps>[0-9]{1,15}))?",
    re.IGNORECASE,
)
_LOSS = re.compile(
    rf"(?P<before>[A-Za-z]+[ _/])?\bloss\b\s*[ =:]\s*(?P<value>{_NUMBER})(?![A-Za-z0-9])", re.IGNORECASE
)
_LOSS_JOINED = re.compile(rf"\b(?P<before>[A-Za-z]+_)loss\s*[ =:]\s*(?P<value>{_NUMBER})", re.IGNORECASE)
_ALONE = re.compile(r"\s*(?:train(?:ing)? )?loss\s*[=:]", re.IGNORECASE)
_NOT_OF_A_STEP = re.compile(r"\b(?:best|lowest|final|minimum)\b", re.IGNORECASE)
# PyTorch's own example counts the rows of an epoch: [640/60000 (1%)].
_OF_AN_EPOCH = re.compile(r"\[(?P<done>[0-9]{1,15})/(?P<all>[0-9]{1,15}) \(")
_HELD_OUT_LINE = "held out after "  # containers/training/loop.py
_BESIDE: Mapping[str, re.Pattern[str]] = {
    "learning_rate": re.compile(rf"\b(?:lr|learning rate)[ =:]+(?P<value>{_NUMBER})"),
    "gradient_norm": re.compile(rf"(?:\|g\||grad(?:ient)?[ _]norm)[ =:]+(?P<value>{_NUMBER})"),
    RATE: re.compile(
        r"(?:\bsamples/sec[ =:]+|(?<![0-9,.])(?=[0-9,.]+ (?:sequences|samples|examples|images)/s\b))"
        rf"(?P<value>{_NUMBER})"
    ),
    "tokens_per_second": re.compile(rf"(?<![0-9,.])(?P<value>{_NUMBER}) tokens/s\b"),
    "tokens_per_dollar": re.compile(rf"(?<![0-9,.])(?P<value>{_NUMBER}) tokens/\$"),
}


def _words(line: str) -> _Said | None:
    losses = {
        _loss_name(found["before"] or "", line): _value(found["value"])
        for pattern in (_LOSS, _LOSS_JOINED)
        for found in pattern.finditer(line)
    }
    step, epoch = _STEP.search(line), _EPOCH.search(line)
    has_place = step is not None or epoch is not None or _ALONE.match(line)
    if not losses or not has_place or _NOT_OF_A_STEP.search(line):
        return None
    metrics = {name: _value(found["value"]) for name, each in _BESIDE.items() if (found := each.search(line))}
    return _Said(
        int(step["step"]) if step else None,
        int(step["steps"]) if step and step["steps"] else None,
        _epoch_of(line, float(epoch["epoch"])) if epoch else None,
        {**metrics, **losses},
    )


def _epoch_of(line: str, epoch: float) -> float:
    done = _OF_AN_EPOCH.search(line)
    return epoch if done is None or done["all"] == "0" else epoch + int(done["done"]) / int(done["all"])


def _loss_name(before: str, line: str) -> str:
    word = before.lower().rstrip(" _/")
    if word == "test":
        return f"test_{LOSS}"
    return f"{HELD_OUT}{LOSS}" if word in _HELD_OUT or line.startswith(_HELD_OUT_LINE) else LOSS


_FORMS: tuple[Callable[[str], _Said | None], ...] = (_record, _bar, _deepspeed, _words)


def _named(values: Mapping[str, float]) -> dict[str, float]:
    """Return each metric under one name; where a library prints two, the plain name wins."""
    named: dict[str, float] = {}
    for name, value in values.items():
        short = _NAMES.get(name, name.removeprefix(_TRAINING))
        short = _NAMES.get(short, short)
        if short == "epoch":
            continue
        for word in _HELD_OUT:
            if short.startswith((f"{word}_", f"{word}/")):
                short = f"{HELD_OUT}{short[len(word) + 1 :]}"
        if short == name or short not in values:
            named[short] = value
    return named


def _value(text: str) -> float:
    return float(text.replace(",", ""))


def _whole(value: float | None) -> int | None:
    return int(value) if value is not None and abs(value) < 2**53 else None
