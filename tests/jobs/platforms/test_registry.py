"""Each kind of target has a platform, and each platform has all methods that commands call."""

from __future__ import annotations

import inspect
from importlib import import_module

import pytest

from slipway.jobs.platforms.platform import PLATFORMS, Platform
from slipway.jobs.words.targets import KINDS

QUESTIONS = {
    name: function
    for name, function in vars(Platform).items()
    if inspect.isfunction(function) and name[0] != "_"
}


def test_every_kind_of_target_has_a_platform_and_every_platform_a_kind() -> None:
    assert set(PLATFORMS) == set(KINDS)


@pytest.mark.parametrize("kind", PLATFORMS)
def test_a_platform_answers_all_that_commands_ask_in_the_same_words(kind: str) -> None:
    module = import_module(PLATFORMS[kind])
    assert len(QUESTIONS) > 10
    for name, asked in QUESTIONS.items():
        answered = inspect.signature(getattr(module, name)).parameters
        assert list(answered) == [
            parameter for parameter in inspect.signature(asked).parameters if parameter != "self"
        ], name
    assert isinstance(module.SERVICE, str)
