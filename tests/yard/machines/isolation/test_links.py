"""Slow and lossy links, in a network of the test's own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from slipway.yard.machines.isolation import links
from slipway.yard.machines.isolation.tiers import TIERS

# Counts how many of a thousand packets leave, and how long ninety kilobytes take, over a link made as asked.
TRIAL = """
import json, socket, subprocess, sys, time
from slipway.yard.machines.isolation import kernel, links
kernel.unshare(kernel.NEW_NETWORK)
for words in ("link set lo up", "link add eth0 type veth peer name far", "addr add 10.9.0.1/24 dev eth0",
              "link set eth0 up", "link set far up", "neigh add 10.9.0.2 lladdr 02:00:00:00:00:02 dev eth0"):
    subprocess.run(["ip", *words.split()], check=True)
problem = links.set_up(json.loads(sys.argv[1]))
sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
refused = 0
for _ in range(1000):
    try:
        sender.sendto(b"x", ("10.9.0.2", 9))
    except PermissionError:
        refused += 1
began = time.monotonic()
sender.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
for _ in range(90):
    try:
        sender.sendto(b"x" * 1000, ("10.9.0.2", 9))
    except PermissionError:
        pass
print(json.dumps({"problem": problem, "refused": refused, "seconds": time.monotonic() - began}))
"""


def test_delay_goes_below_the_rate_and_loss_is_drawn_in_hundredths_of_a_percent() -> None:
    both = list(links.commands({"delay_ms": 20, "mbit": 1}))
    assert [command[command.index("dev") + 2] for command in both] == ["root", "parent"]
    assert both[0][-7:-4] == ["tbf", "rate", "1mbit"]
    assert both[1][-2:] == ["delay", "20ms"]
    assert "numgen random mod 10000 < 50 drop" in links.loss({"loss_percent": 0.5})
    assert "drop" not in links.loss({})
    assert list(links.commands({})) == []


@pytest.mark.skipif(not TIERS[0].works(), reason="only root gives a network its links")
def test_a_lossy_link_loses_its_share() -> None:
    found = trial('{"loss_percent": 50}')
    assert found["problem"] == ""
    assert 350 < found["refused"] < 650


@pytest.mark.skipif(not TIERS[0].works(), reason="only root gives a network its links")
def test_a_slow_link_takes_its_time() -> None:
    """A hundred kilobytes at one megabit a second, less what may leave at once."""
    found = trial('{"mbit": 1}')
    assert found["problem"] == ""
    assert found["seconds"] > 0.1


def trial(link: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-c", TRIAL, link], capture_output=True, text=True, check=True, env=dict(os.environ)
    )
    return dict(json.loads(done.stdout))
