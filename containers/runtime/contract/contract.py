"""The launch contract: what every training process knows, such as its rank, the world size and its folders.

A new fact is one field here, one row of _VARIABLES and a name in variables.py. The platform gives the static
half as SLIPWAY_* variables; launchers.py reads the dynamic half (own rank, main address) from the launcher's
variables.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from slipway.containers.runtime import values
from slipway.containers.runtime.contract import variables
from slipway.containers.runtime.values import InvalidContract

# The variable of each field. torch.distributed's env:// and DeepSpeed read the upper ones.
_VARIABLES: Mapping[str, str] = {
    "rank": "RANK",
    "local_rank": "LOCAL_RANK",
    "world": "WORLD_SIZE",
    "local_world": "LOCAL_WORLD_SIZE",
    "main_address": "MASTER_ADDR",
    "main_port": "MASTER_PORT",
    "job": variables.JOB,
    "run": variables.RUN,
    "attempt": variables.ATTEMPT,
    "node": variables.NODE,
    "nodes": variables.NODES,
    "data": variables.DATA,
    "checkpoints": variables.CHECKPOINTS,
    "logs": variables.LOGS,
    "archive": variables.ARCHIVE,
    "account": variables.ACCOUNT,
    "accelerator": variables.ACCELERATOR,
    "deadline": variables.DEADLINE,
    "usd_per_hour": variables.USD_PER_HOUR,
    "collective_seconds": variables.COLLECTIVE_SECONDS,
}

# By default torch waits 30 minutes (gloo) or 10 (NCCL) for a lost peer, and all nodes are paid for meanwhile.
DEFAULT_COLLECTIVE_SECONDS = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchContract:
    job: str  # the name that a person gave or sees
    run: str  # the platform's own id: two submissions of one job differ here
    attempt: int  # from 1; a retry of the same run counts up
    rank: int
    local_rank: int
    local_world: int
    world: int
    node: int  # the main node is 0
    nodes: int
    main_address: str
    main_port: int
    data: str | None = None
    checkpoints: str | None = None
    logs: str | None = None
    archive: str | None = None  # a folder on node 0 that the platform packs and keeps when the job ends
    account: str | None = None  # whose buckets may be read; None: not in AWS
    accelerator: str | None = None  # that the node was promised with; a key of ACCELERATOR_FILES
    deadline: float | None = None  # Unix seconds at which the platform ends this attempt
    usd_per_hour: float | None = None  # of all nodes together, on demand; None: nobody said
    collective_seconds: float = DEFAULT_COLLECTIVE_SECONDS  # for init_process_group(timeout=)

    def __post_init__(self) -> None:
        """Read the contract back from its variables: refuse one that they cannot carry."""
        read = _decode(self.to_environment())
        if any(getattr(self, name) != value for name, value in read.items()):
            raise InvalidContract(
                f"the contract of rank {self.rank} cannot be passed through the environment: {self}"
            )
        if self.rank < self.local_rank:
            raise InvalidContract(
                f"RANK is {self.rank}, below LOCAL_RANK, which is {self.local_rank}; that is impossible"
            )
        if self.local_world + self.nodes - 1 > self.world:
            raise InvalidContract(
                f"LOCAL_WORLD_SIZE is {self.local_world} on one of {self.nodes} nodes, WORLD_SIZE only "
                f"{self.world}; every node has at least one rank"
            )

    def to_environment(self) -> dict[str, str]:
        """Return what torch reads (RANK, LOCAL_RANK, WORLD_SIZE, MASTER_ADDR, …) and the SLIPWAY_*
        variables."""
        fields = ((variable, getattr(self, name)) for name, variable in _VARIABLES.items())
        return {variable: str(value) for variable, value in fields if value is not None}

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> LaunchContract:
        """Read the contract that our launcher gave this process; launchers.read_contract knows others."""
        return cls(**_decode(environment))  # type: ignore[arg-type]  # _decode has one entry a field, typed there

    @classmethod
    def combined(cls, environment: Mapping[str, str], facts: Mapping[str, object]) -> LaunchContract:
        """Read the contract from its variables, but for facts that are known from elsewhere, by field."""
        told = {_VARIABLES[name]: str(value) for name, value in facts.items() if value is not None}
        return cls.from_environment({**environment, **told})


def _decode(environment: Mapping[str, str]) -> dict[str, object]:
    world = values.whole(environment, "WORLD_SIZE", low=1, high=values.LARGEST_WORLD)
    nodes = values.whole(environment, variables.NODES, low=1, high=world)
    local_world = values.whole(environment, "LOCAL_WORLD_SIZE", low=1, high=world)
    collective_seconds = values.seconds(environment, variables.COLLECTIVE_SECONDS)
    return {
        "job": values.identifier(environment, variables.JOB),
        "run": values.identifier(environment, variables.RUN),
        "attempt": values.whole(environment, variables.ATTEMPT, low=1, high=values.LARGEST_ATTEMPT),
        "rank": values.whole(environment, "RANK", high=world - 1),
        "local_rank": values.whole(environment, "LOCAL_RANK", high=local_world - 1),
        "local_world": local_world,
        "world": world,
        "node": values.whole(environment, variables.NODE, high=nodes - 1),
        "nodes": nodes,
        "main_address": values.address(environment, "MASTER_ADDR"),
        "main_port": values.whole(environment, "MASTER_PORT", low=1, high=values.LARGEST_PORT),
        "data": values.location(environment, variables.DATA),
        "checkpoints": values.location(environment, variables.CHECKPOINTS),
        "logs": values.location(environment, variables.LOGS),
        "archive": values.location(environment, variables.ARCHIVE),
        "account": values.account(environment, variables.ACCOUNT),
        "accelerator": promised_accelerator(environment),
        "deadline": values.seconds(environment, variables.DEADLINE),
        "usd_per_hour": values.dollars(environment, variables.USD_PER_HOUR),
        "collective_seconds": collective_seconds or DEFAULT_COLLECTIVE_SECONDS,
    }


def promised_accelerator(environment: Mapping[str, str]) -> str | None:
    """Return what the node was promised with; None where that is none, or a yard's processors stand in."""
    is_there = environment.get(variables.ACCELERATOR) and variables.STAND_IN not in environment
    return values.identifier(environment, variables.ACCELERATOR) if is_there else None
