"""The settings of a user's own command or recipe are read strictly, before a node is paid for."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, Optional

import pytest

from slipway.containers.recipes.command.config import decode_arguments, refuse_ranks
from slipway.containers.recipes.command.own_recipe import BadRecipe, kinds_of, read_config
from slipway.containers.runtime.errors import Refusal
from slipway.containers.training.settings import InvalidSettings

SOURCE = f"source=s3://bucket/sources/{'a1' * 32}.tar.gz"


def test_words_arrive_as_they_were_given() -> None:
    config = decode_arguments([SOURCE, 'command=["python", "a b", ""]', "requirements=conf/r.txt"])
    assert (config.command, config.digest) == (("python", "a b", ""), "a1" * 32)
    assert (config.requirements, config.is_per_node) == ("conf/r.txt", False)
    assert (config.environment, config.secrets) == ({}, {})  # no settings were given


@pytest.mark.parametrize(
    "wrong",
    [
        "command=python train.py",
        "command=[]",
        'command=[""]',
        "command=[1]",
        'command=["a\\u0000"]',
        "source=s3://bucket/other.tar.gz",
        "source=relative.tar.gz",
        "per_node=perhaps",
        "requirements=../r.txt",
        "requirements=/etc/r.txt",
    ],
)
def test_settings_that_make_no_sense_are_refused(wrong: str) -> None:
    name = wrong.partition("=")[0]
    good = {"source": SOURCE, "command": 'command=["true"]'}
    with pytest.raises(InvalidSettings, match=f"{name} is "):
        decode_arguments([wrong, *(text for key, text in good.items() if key != name)])


def test_what_is_missing_is_said_all_at_once() -> None:
    with pytest.raises(InvalidSettings, match="source is not set") as refusal:
        decode_arguments([])
    assert len(refusal.value.mistakes) == 2


def test_a_command_that_starts_ranks_itself_is_not_started_for_each_of_them() -> None:
    given = [SOURCE, 'command=["torchrun", "train.py"]', "per_node=yes"]
    refuse_ranks(given, 2, 1)
    with pytest.raises(Refusal, match="once a node, and 8 processes"):
        refuse_ranks(given, 16, 8)


# A user's own dataclass says which settings there are, and all mistakes are told at once.


@dataclass(frozen=True)
class Config:
    rows: int
    rate: float = 1e-3
    name: str = "a"
    warm: bool = False
    optimizer: Literal["adam", "sgd"] = "adam"
    depth: Literal[2, 4] = 2
    limit: int | None = None
    other: Optional[float] = None  # noqa: UP045 - people write it so
    counted: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        if self.rows < 0:
            raise ValueError(f"rows is {self.rows}, and must not be negative")


def test_each_type_is_read_strictly() -> None:
    told = ["rows=3", "rate=2e-4", "name=b c=d", "warm=yes", "optimizer=sgd", "depth=4", "limit=-1"]
    assert read_config(Config, [*told, "other=0.5"]) == Config(
        rows=3, rate=2e-4, name="b c=d", warm=True, optimizer="sgd", depth=4, limit=-1, other=0.5
    )
    assert read_config(Config, ["rows=1", "warm=no"]) == Config(rows=1)


def test_all_mistakes_are_told_at_once() -> None:
    told = ["rate=nan", "warm=maybe", "optimizer=adamw", "depth=3", "limit=1.5", "counted=1", "optimiser=sgd"]
    with pytest.raises(InvalidSettings) as refused:
        read_config(Config, told)
    words = " | ".join(refused.value.mistakes)
    for expected in (
        "rows is not set, and must be a whole number",
        "rate is 'nan', and must be a number",
        "warm is 'maybe', and must be yes or no",
        "optimizer is 'adamw', and must be adam or sgd",
        "depth is '3', and must be 2 or 4",
        "limit is '1.5', and must be a whole number",
        "'counted' is not a setting",
        "'optimiser' is not a setting; did you mean optimizer?",
    ):
        assert expected in words


def test_what_the_recipe_itself_refuses_is_a_mistake_like_others() -> None:
    with pytest.raises(InvalidSettings, match="rows is -1, and must not be negative"):
        read_config(Config, ["rows=-1"])


@dataclass(frozen=True)
class Untyped:
    rows: int = 1
    rate = 0.5


@dataclass(frozen=True)
class Unknown:
    rows: list[int] = field(default_factory=list)


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (
            Untyped,
            "setting rate of Config has no type, .*; write rate: float = 0.5",
        ),
        (Unknown, r"setting rows of Config has the type list.*; allowed are int, float, str, bool, Literal"),
        (object(), "Config is not a dataclass; write @dataclass"),
        (int, "Config is not a dataclass"),
    ],
)
def test_a_config_that_nobody_could_set_is_refused(config: object, words: str) -> None:
    with pytest.raises(BadRecipe, match=words):
        kinds_of(config)
