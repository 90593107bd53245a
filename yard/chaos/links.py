"""The faults of the network between nodes and hosts, as isolation/links.py carries them out."""

from __future__ import annotations

from slipway.yard.chaos import conditions

_FAULTS = {"packet-delay": "delay_ms", "packet-loss": "loss_percent", "bandwidth": "mbit"}


def wanted() -> dict[str, float]:
    """Return what is wrong with every link now; empty where nothing is."""
    return {word: value for name, word in _FAULTS.items() if (value := conditions.value(name))}
