"""The settings of a user's own command are read strictly, before a node is paid for."""

from __future__ import annotations

import pytest

from slipway.containers.recipes.command.config import decode_arguments, refuse_ranks
from slipway.containers.runtime.errors import Refusal
from slipway.containers.training.settings import InvalidSettings

SOURCE = f"source=s3://bucket/sources/{'a1' * 32}.tar.gz"


def test_words_arrive_as_they_were_given() -> None:
    config = decode_arguments([SOURCE, 'command=["python", "a b", ""]', "requirements=conf/r.txt"])
    assert (config.command, config.digest) == (("python", "a b", ""), "a1" * 32)
    assert (config.requirements, config.is_per_node) == ("conf/r.txt", False)


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
