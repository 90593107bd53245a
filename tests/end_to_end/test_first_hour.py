"""Each command of the first hour's page works in order, from the wheel, in an empty folder and a new yard.

Signing in to AWS and installing are left out: the yard's variables and this environment replace them.
"""

from __future__ import annotations

import re

import pytest

from tests.end_to_end.test_readme_session import TypingUser, user
from tests.test_docs import SHELL_BLOCK, page

pytestmark = [
    pytest.mark.cdk,
    pytest.mark.slow,
    pytest.mark.long,
]  # minutes; README's session holds most of it

__all__ = ["user"]  # the fixture
NAME = "my-training"
NOT_HERE = ("pip install", "npm install", "aws ", "export AWS_")
# What a user answers to a command's questions, and where the yard differs from a real account.
ANSWERS = {f"slipway cluster destroy {NAME}": NAME, f"slipway cluster leftovers {NAME} --delete": NAME}
MAY_FAIL = ("slipway preflight",)  # nobody reads alert_email, and the yard activates no tag of Billing
QUIETLY = "--require-approval never"  # nobody is asked
_COMMENT = re.compile(r"\s{2,}#.*$")


def commands() -> list[str]:
    """Return the page's commands in order."""
    lines = [
        _COMMENT.sub("", line) for block in SHELL_BLOCK.findall(page(PAGE)) for line in block.splitlines()
    ]
    typed = [line.replace("ACCOUNT", "123456789012") for line in lines if not line.startswith(NOT_HERE)]
    return [f"{line} {QUIETLY}" if line.startswith("cdk deploy") else line for line in typed]


PAGE = "docs/first-hour.md"


def test_every_command_of_the_first_hour_works_in_its_order_and_leaves_nothing(user: TypingUser) -> None:
    for command in ("slipway yard up", 'eval "$(slipway yard env)"', *commands()):
        ran = user.type(command, ANSWERS.get(command, ""))
        assert ran.status == 0 or command.startswith(MAY_FAIL), f"$ {command}\n{ran.text}"
        if command.startswith(("slipway submit", "slipway run")):
            assert re.search(r": succeeded$", ran.text, re.MULTILINE), f"$ {command}\n{ran.text}"
    assert user.shell.data("slipway", "cluster", "leftovers", "--json") == []
