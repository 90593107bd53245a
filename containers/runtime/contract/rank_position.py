"""Where one process stands among all of its job: what a launcher says, before anything of ours is added."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RankPosition:
    """Describe where the process that reads it stands: a node's launcher if one was started per node, else
    one rank."""

    node: int
    nodes: int
    rank: int
    world: int
    local_rank: int
    local_world: int
    main_address: str
    main_port: int
