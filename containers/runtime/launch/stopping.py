"""Why all ranks are asked to stop before they are done, and how long they have; nodes tell each other."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from slipway.containers.runtime.collective import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """Ask all ranks to stop. The request reaches one node from outside, and every node passes it to its
    ranks."""

    why: str
    node: int  # the one that was asked
    seconds: float | None = None  # until its machine is gone; None: the grace of the settings
    resumes: bool = False  # the machines end, not the job: another attempt is wanted whatever the ranks say

    def to_json(self) -> Json:
        return dict(asdict(self))


def from_json(value: Json) -> Stop:
    """Read the request of a peer in this attempt; a damaged one still stops."""
    record = value if isinstance(value, dict) else {}
    node, seconds = record.get("node"), record.get("seconds")
    return Stop(
        why=str(record.get("why", "a node did not say why")),
        node=node if type(node) is int else 0,
        seconds=float(seconds) if isinstance(seconds, (int, float)) else None,
        resumes=record.get("resumes") is True,
    )
