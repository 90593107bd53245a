"""What a process is told that trains by itself."""

from __future__ import annotations

from containers.runtime.contract import LaunchContract

ALONE = LaunchContract(
    job="test",
    run="test",
    attempt=1,
    rank=0,
    local_rank=0,
    local_world=1,
    world=1,
    node=0,
    nodes=1,
    main_address="127.0.0.1",
    main_port=1,
)
