"""What a module leaves in a shared yard is found and named."""

from __future__ import annotations

import subprocess
import sys

import pytest

from slipway.yard.endpoint import control
from tests.yard import leftovers
from tests.yard.conftest import RunningYard
from tests.yard.leftovers import contents, left_behind, processes_below

# Stands in for a server with a child process and a grandchild.
TREE = "import subprocess, sys; subprocess.run(['sh', '-c', 'cat; exit'])"


def test_an_empty_yard_has_nothing_left_in_it(yard: RunningYard) -> None:
    new = contents(yard, yard.home)
    yard.client("s3").create_bucket(Bucket="emptied")
    control(yard, "POST", "/reset")
    assert left_behind(new, contents(yard, yard.home)) == ""


def test_a_stack_and_chaos_that_stay_are_named(yard: RunningYard) -> None:
    new = contents(yard, yard.home)
    topic = '{"Resources": {"Topic": {"Type": "AWS::SNS::Topic"}}}'
    yard.client("cloudformation").create_stack(StackName="forgotten", TemplateBody=topic)
    control(yard, "POST", "/switches", {"values": {"throttling": 0.5}})
    said = left_behind(new, contents(yard, yard.home))
    assert "stacks: [{" in said
    assert "forgotten" in said
    assert "; chaos: {" in said


def test_a_process_that_stays_is_named_with_all_below_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leftovers, "PATIENCE_S", 0.0)
    server = subprocess.Popen([sys.executable, "-c", TREE], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert server.stdin is not None
    assert server.stdout is not None
    server.stdin.write(b"up\n")
    server.stdin.flush()
    assert server.stdout.readline() == b"up\n", "the last of them runs"
    found = processes_below(server.pid)
    assert sorted(command.split(" ", 1)[1] for command in found) == ["cat", "sh -c cat; exit"]
    server.communicate()
    assert processes_below(server.pid) == []
