"""The settings of a node's launcher, from SLIPWAY_* variables. A new one is one field of Settings."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import slipway.containers as containers
from slipway.containers.runtime import values
from slipway.containers.runtime.contract import variables
from slipway.containers.runtime.errors import Refusal
from slipway.containers.runtime.values import InvalidContract, shown

# The names of device files below /dev, by accelerator.
ACCELERATOR_FILES: Mapping[str, str] = {
    "habana": r"accel/accel[0-9]+|hl[0-9]+",
    "neuron": r"neuron[0-9]+",
    "nvidia": r"nvidia[0-9]+",
}
SPOT = "spot"
_MARKETS = ("on-demand", SPOT)
METADATA = "http://169.254.169.254"
METADATA_VARIABLE = "AWS_EC2_METADATA_SERVICE_ENDPOINT"  # which the AWS SDKs read
_ENDPOINT = re.compile(r"https?://[A-Za-z0-9.:\[\]-]{1,255}/?", re.ASCII)
_MODULE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", re.ASCII)
_MOST_PROCESSES = 1024
_MOST_PAGES = 1 << 24
_SECONDS: Mapping[str, str] = {
    "rendezvous_seconds": variables.RENDEZVOUS_SECONDS,
    "heartbeat_seconds": variables.HEARTBEAT_SECONDS,
    "grace_seconds": variables.GRACE_SECONDS,
    "hang_seconds": variables.HANG_SECONDS,
    "save_seconds": variables.SAVE_SECONDS,
    "start_seconds": variables.START_SECONDS,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    module: str
    arguments: tuple[str, ...]
    processes: int  # of this launcher; one a device
    accelerator: str | None = None  # a key of ACCELERATOR_FILES
    accelerators: int = 0  # device files that must be there
    efa_interfaces: int = 0
    huge_pages: int = 0  # of 2 MiB
    is_stand_in: bool = False  # of a yard, which has none of these
    config_digest: str = ""  # of whatever else must be the same on all nodes
    market: str = _MARKETS[0]  # how the instance was bought: Spot is asked whether it is taken back
    metadata_endpoint: str = METADATA
    resume_after_signals: bool = (
        False  # a rank killed by a signal, other than for memory, ends the job with 85
    )
    # AWS Batch starts the other nodes' containers only when the main node's runs, and only then do they pull
    # an image of many gigabytes: this has to hold for a whole pull, not for the difference of two.
    rendezvous_seconds: float = 1800.0
    heartbeat_seconds: float = 10.0  # silence after which a node is dead
    grace_seconds: float = 25.0  # from SIGTERM to SIGKILL; Batch gives 30
    hang_seconds: float = 300.0  # without a step; 0 lets a rank hang
    # Without a piece of 8 MiB written; before the other ranks give up waiting for it (collective_seconds).
    save_seconds: float = 240.0
    start_seconds: float = 1800.0  # until the first step: graphs are compiled before it

    @classmethod
    def of(
        cls, environment: Mapping[str, str], place: RankPosition, module: str, arguments: list[str]
    ) -> Settings:
        if not _MODULE.fullmatch(module):
            raise Refusal(f"--module is {shown(module)}, and must be a Python module such as package.train")
        accelerator = environment.get(variables.ACCELERATOR) or None
        if accelerator is not None and accelerator not in ACCELERATOR_FILES:
            allowed = " or ".join(ACCELERATOR_FILES)
            raise InvalidContract(f"{variables.ACCELERATOR} is {shown(accelerator)}, and must be {allowed}")
        return cls(
            module=module,
            arguments=tuple(arguments),
            processes=_processes(environment, place),
            accelerator=accelerator,
            accelerators=values.whole(environment, variables.ACCELERATORS, high=_MOST_PROCESSES, default=0),
            efa_interfaces=values.whole(environment, variables.EFA_INTERFACES, high=64, default=0),
            huge_pages=values.whole(environment, variables.HUGE_PAGES, high=_MOST_PAGES, default=0),
            is_stand_in=variables.STAND_IN in environment,
            market=_market(environment),
            metadata_endpoint=_endpoint(environment),
            config_digest=environment.get(variables.CONFIG_DIGEST, ""),
            resume_after_signals=bool(
                values.whole(environment, variables.RESUME_AFTER_SIGNALS, high=1, default=0)
            ),
            **{
                field: seconds
                for field, variable in _SECONDS.items()
                if (seconds := values.seconds(environment, variable)) is not None
            },
        )


def _market(environment: Mapping[str, str]) -> str:
    given = environment.get(variables.MARKET) or _MARKETS[0]
    if given not in _MARKETS:
        allowed = " or ".join(_MARKETS)
        raise InvalidContract(f"{variables.MARKET} is {shown(given)}, and must be {allowed}")
    return given


def _endpoint(environment: Mapping[str, str]) -> str:
    given = environment.get(METADATA_VARIABLE) or METADATA
    if not _ENDPOINT.fullmatch(given):
        raise InvalidContract(f"{METADATA_VARIABLE} is {shown(given)}, and must be a URL such as {METADATA}")
    return given


def _processes(environment: Mapping[str, str], place: RankPosition) -> int:
    """Return one process per device, unless the launcher has started one per device itself."""
    name = variables.PROCESSES_PER_NODE
    wanted = values.whole(environment, name, low=1, high=_MOST_PROCESSES, default=place.local_world)
    if place.local_world == 1:
        return wanted
    if wanted != place.local_world:
        raise InvalidContract(
            f"{name} is {wanted}, and the launcher started {place.local_world} processes on this node",
            hint="let it start one a node, or one a device",
        )
    return 1


# A digest of everything that must be equal on all nodes; otherwise ranks would train different models as one.
_MOST_FILES = 2000


def digest_of(settings: Settings) -> str:
    """Return a digest of the code, the arguments and what the backend adds, without the machine's own
    paths. The code is our whole package, and the file of a module that is not in it."""
    running = hashlib.sha256()
    shape = [settings.module, settings.arguments, settings.processes, settings.config_digest]
    running.update(json.dumps(shape).encode())
    sources: dict[str, Path] = {}
    for root in map(Path, containers.__path__):
        files = sorted(root.rglob("*.py"))[:_MOST_FILES]
        sources |= {str(path.relative_to(root)): path for path in files}
    if own := _file_of(settings.module):
        sources[f"module {settings.module}"] = own
    for name, path in sorted(sources.items()):
        running.update(f"\0{name}\0".encode() + path.read_bytes())
    return running.hexdigest()


def _file_of(module: str) -> Path | None:
    try:
        spec = importlib.util.find_spec(module)
    except ModuleNotFoundError:
        spec = None
    except ImportError as error:
        raise Refusal(f"--module {module} cannot be imported: {error}") from None
    if spec is None:
        raise Refusal(
            f"--module {module} is not installed here", hint="check its name, and that the image holds it"
        )
    return Path(spec.origin) if spec.origin and spec.has_location else None


# The identity of a run, which keeps attempts and jobs apart.
Environment = Mapping[str, str]

DEFAULT_RUN = "local"

# The first that is set. Batch's children of a multi-node job carry "#1", "#2" after the id they share.
_RUN_IDS = (variables.RUN, "AWS_BATCH_JOB_ID", "SLURM_JOB_ID", "TRAINING_JOB_NAME", variables.JOB)

# The variable with the attempt's number, and the number of the first attempt.
_ATTEMPTS = (
    (variables.ATTEMPT, 1),
    ("AWS_BATCH_JOB_ATTEMPT", 1),
    ("SLURM_RESTART_COUNT", 0),
    ("TORCHELASTIC_RESTART_COUNT", 0),
)

# Below Linux's ephemeral ports (32768 up), so that no outgoing connection holds one by chance.
_FIRST_PORT, _PORTS = 20_000, 12_000


def run_of(environment: Environment) -> str:
    name = next((name for name in _RUN_IDS if name in environment), None)
    if name is None:
        return DEFAULT_RUN
    return values.identifier(environment, name).split("#", 1)[0] or DEFAULT_RUN


def job_of(environment: Environment) -> str:
    if variables.JOB not in environment:
        return run_of(environment)
    return values.identifier(environment, variables.JOB)


def attempt_of(environment: Environment) -> int:
    for name, first in _ATTEMPTS:
        if name in environment:
            return values.whole(environment, name, low=first, high=values.LARGEST_ATTEMPT) - first + 1
    return 1


def port_of(environment: Environment) -> int:
    """Compute the main port from the run, so that all nodes get the same one and two runs on one machine
    differ."""
    digest = hashlib.sha256(f"{run_of(environment)}\0{attempt_of(environment)}".encode()).digest()
    derived = _FIRST_PORT + int.from_bytes(digest[:4], "big") % _PORTS
    return values.whole(environment, variables.PORT, low=1, high=values.LARGEST_PORT, default=derived)


# The position of a process in its job, as the launcher gives it.


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
