"""How a command that fails ends: what is said, and the exit code."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import click
import pytest
from botocore.exceptions import (
    ClientError,
    EndpointConnectionError,
    NoCredentialsError,
    ProxyConnectionError,
    SSLError,
)

from slipway.jobs.cli import cli
from slipway.jobs.words.errors import InvalidConfig, Problem, SlipwayError

Fail = Callable[..., int]


@pytest.fixture
def fail(monkeypatch: pytest.MonkeyPatch) -> Fail:
    """Runs `slipway boom`, a command that raises what it is given."""

    def run(error: BaseException, *before: str) -> int:
        def callback() -> None:
            raise error

        command = click.Command("boom", callback=callback, help="Raise.")
        monkeypatch.setitem(cast(dict[str, object], cli.GROUPS["Jobs"]), "boom", ("made_up.boom", "Raise"))
        monkeypatch.setitem(sys.modules, "made_up.boom", SimpleNamespace(boom_command=command))
        return cli.run([*before, "boom"])

    return run


def test_a_users_mistake_is_two_lines_and_no_traceback(
    fail: Fail, capsys: pytest.CaptureFixture[str]
) -> None:
    assert fail(SlipwayError("zone 'x' is unknown", hint="use us-east-1a")) == 1
    assert capsys.readouterr().err == "error: zone 'x' is unknown\nhint: use us-east-1a\n"


def test_every_problem_of_a_declaration_is_a_line_of_its_own(
    fail: Fail, capsys: pytest.CaptureFixture[str]
) -> None:
    problems = [
        Problem(where="dl1.zone", message="no", hint="try b"),
        Problem(where="dl1.max_nodes", message="0"),
    ]
    assert fail(InvalidConfig(problems)) == 2
    assert capsys.readouterr().err == "error: dl1.zone: no; try b\nerror: dl1.max_nodes: 0\n"


def test_an_interrupt_is_one_line_and_130(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    wait = click.Command("wait", callback=lambda: signal.raise_signal(signal.SIGINT))
    monkeypatch.setitem(cast(dict[str, object], cli.GROUPS["Jobs"]), "wait", ("made_up.wait", "Wait"))
    monkeypatch.setitem(sys.modules, "made_up.wait", SimpleNamespace(wait_command=wait))
    # As at a terminal: a shell that starts this in the background has it ignore interrupts.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        assert cli.run(["wait"]) == 130
    finally:
        signal.signal(signal.SIGINT, before)
    assert capsys.readouterr().err == "interrupted\n"


def test_a_fault_of_our_own_is_told_and_its_traceback_kept(
    fail: Fail, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert fail(KeyError("lost")) == 70
    error, hint = capsys.readouterr().err.splitlines()
    assert error == "error: unexpected KeyError: 'lost'"
    [log] = tmp_path.iterdir()
    assert str(log) in hint
    assert "Traceback (most recent call last)" in log.read_text()


def test_debug_shows_the_traceback_at_once(fail: Fail, capsys: pytest.CaptureFixture[str]) -> None:
    assert fail(KeyError("lost"), "--debug") == 70
    printed = capsys.readouterr().err
    assert "Traceback (most recent call last)" in printed
    assert "the traceback is above" in printed


def test_a_full_or_unreadable_disk_is_no_fault_of_ours(
    fail: Fail, capsys: pytest.CaptureFixture[str]
) -> None:
    assert fail(PermissionError(13, "Permission denied", "here/there")) == 1
    assert capsys.readouterr().err.startswith("error: Permission denied: here/there\n")


@pytest.mark.parametrize(
    ("error", "hint"),
    [
        (NoCredentialsError(), "AWS_PROFILE"),
        (
            ClientError({"Error": {"Code": "ExpiredToken", "Message": "old"}}, "ListStacks"),
            "sign in to AWS again",
        ),
        (ClientError({"Error": {"Code": "RequestTimeTooSkewed", "Message": "x"}}, "ListStacks"), "clock"),
        (
            ClientError({"Error": {"Code": "OptInRequired", "Message": "x"}}, "ListStacks"),
            "enable this region",
        ),
        (EndpointConnectionError(endpoint_url="https://batch.us-east-1.amazonaws.com/"), "check the network"),
        (ProxyConnectionError(proxy_url="http://proxy:3128"), "check HTTPS_PROXY and NO_PROXY"),
        (SSLError(endpoint_url="https://a/", error="self-signed certificate in chain"), "AWS_CA_BUNDLE"),
    ],
)
def test_what_aws_refuses_is_told_with_what_to_do(
    fail: Fail, error: Exception, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert fail(error) == 1
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith("error: AWS: ")
    assert hint in second
