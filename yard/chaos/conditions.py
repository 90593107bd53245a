"""Keeps which faults are on in this yard, and draws its random numbers from one seed.

A draw depends on the seed, the fault, the kind, and how many draws of that kind came before; never on a clock
or on the order of threads elsewhere. So one seed repeats its faults if calls of each kind come in the same
order.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Mapping
from typing import Any

from slipway.jobs.words.catalogue.instances import find_instance_type
from slipway.yard.chaos.switches import SWITCHES, checked_value
from slipway.yard.errors import ApiError

_DRAW_BYTES = 8

_lock = threading.Lock()
_values: dict[str, float] = {}
_seed = [0]
_drawn: dict[tuple[str, str], int] = {}  # (fault, kind) -> draws so far
_struck: dict[str, int] = {}


def switch(values: Mapping[str, float], *, seed: int | None = None) -> None:
    """Set these faults; 0 switches one off. A seed begins all draws anew."""
    checked = dict(checked_value(name, value) for name, value in values.items())
    with _lock:
        _values.update(checked)
        for name in [name for name, value in _values.items() if value == 0]:
            del _values[name]
        if seed is not None:
            _seed[0] = seed
            _drawn.clear()
            _struck.clear()


def reset() -> None:
    with _lock:
        for table in (_values, _drawn, _struck):
            table.clear()
        _seed[0] = 0


def are_any_on() -> bool:
    """Return False in a yard without faults, so that its calls skip all checks for faults."""
    return bool(_values)


def value(name: str) -> float:
    """Return the fault's value; 0 where it is off."""
    assert name in SWITCHES, name
    return _values.get(name, 0.0)


def draw(name: str, kind: str) -> float:
    """Return the next number of this fault and kind, at least 0 and less than 1."""
    with _lock:
        count = _drawn.get((name, kind), 0)
        _drawn[name, kind] = count + 1
    return number(name, f"{kind} {count}")


def number(name: str, what: str) -> float:
    """Return the seed's fixed number for `what`, at least 0 and less than 1."""
    text = f"{_seed[0]}/{name}/{what}".encode()
    drawn = int.from_bytes(hashlib.sha256(text).digest()[:_DRAW_BYTES], "big")
    return drawn / float(1 << 8 * _DRAW_BYTES)


def strikes(name: str, kind: str) -> bool:
    """Return True if the fault strikes its next case; its value is a share in percent."""
    share = value(name) / 100
    if not share or draw(name, kind) >= share:
        return False
    count(name)
    return True


def seconds(name: str, kind: str) -> float:
    """Return how long the next case lasts, if the fault's value is a longest time; 0 if it is off."""
    longest = value(name)
    return longest * draw(name, kind) if longest else 0.0


def count(name: str) -> None:
    with _lock:
        _struck[name] = _struck.get(name, 0) + 1


def described() -> dict[str, Any]:
    """Return the seed and every fault, with its value and how often it struck."""
    rows = [
        {
            "name": found.name,
            "value": _values.get(found.name, 0),
            "unit": found.unit,
            "struck": _struck.get(found.name, 0),
            "does": found.does,
        }
        for found in SWITCHES.values()
    ]
    return {"seed": _seed[0], "switches": rows}


# EC2 always has capacity for small instances; the fault `no-capacity` decides about large ones.
LARGE_VCPUS = 64


def lacks_capacity(instance_type: str) -> bool:
    """Return True if the fault strikes the next launch of this type."""
    known = find_instance_type(instance_type)
    is_large = known is not None and (known.vcpus >= LARGE_VCPUS or known.accelerator is not None)
    return is_large and strikes("no-capacity", instance_type)


def no_capacity(instance_type: str, zone: str) -> ApiError:
    # EC2's error codes list it among the server errors.
    return ApiError("InsufficientInstanceCapacity", words_of_no_capacity(instance_type, zone), status=500)


def words_of_no_capacity(instance_type: str, zone: str) -> str:
    """Return EC2's message."""
    return (
        f"We currently do not have sufficient {instance_type} capacity in the Availability Zone you "
        f"requested ({zone}). Our system will be working on provisioning additional capacity."
    )


# The network faults, and the names that machines/isolation/links.py, which applies them, has for them.
_FAULTS = {"packet-delay": "delay_ms", "packet-loss": "loss_percent", "bandwidth": "mbit"}


def faults_of_links() -> dict[str, float]:
    """Return the faults that every link has now; empty if there are none."""
    return {word: said for name, word in _FAULTS.items() if (said := value(name))}
