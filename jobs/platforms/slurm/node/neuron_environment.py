"""Sets the variables that Neuron's libraries need, by their installed release, each with its reason.

Guides of several years contradict each other: LEFT_OUT has the variables that they set and we do not, with
the reasons. Another release is a row of RELEASES. None of this was tried on Trainium.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256

from slipway.jobs.platforms.on_nodes import RankPython, rank_python
from slipway.jobs.platforms.slurm.node.setting import SlurmNodeFacts, SlurmNodePaths
from slipway.jobs.words.errors import SlipwayError

# Below Linux's ephemeral ports (32768 up) or excluded from them: the machine image reserves it by
# net.ipv4.ip_local_reserved_ports, or an outgoing connection may hold it when the root communicator binds.
ROOT_PORT = 48_620
NO_COMPILER = "none"
_COMPILER_SECONDS = 60
_FORK_SAFE_SINCE = (5, 15)
# The compiler's variables, which must be equal where graphs are compiled and where they are loaded.
FLAGS = "--model-type=transformer --distribution-strategy=llm-training"


class UnknownCompiler(SlipwayError):
    """The installed compiler belongs to no release whose settings are known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NeuronNode:
    """Describes what the values depend on."""

    compiler: str  # version of neuronx-cc
    kernel: str
    has_efa: bool
    main_address: str
    cache: str  # folder on shared files


# SDK release by the first two parts of its neuronx-cc's version.
RELEASES: Mapping[str, str] = {"2.23": "2.28.1"}

LEFT_OUT: Mapping[str, str] = {
    "XLA_USE_BF16": "torch-xla ended it; the recipe casts what is to be cast, and keeps sums in fp32",
    "XLA_DOWNCAST_BF16": "the same",
    "NEURON_RT_ASYNC_EXEC_MAX_INFLIGHT_REQUESTS": "removed from SDK 2.31, and warned of since",
    "TF_NUM_INTEROP_THREADS": "of torch-xla before 2.0, which stood on TensorFlow",
    "FI_EFA_FORK_SAFE": "kernels since 5.15 keep pinned pages from a forked child by themselves",
}

# Variables that only some nodes need, each with its value and its reason.
_FOR_EFA = {
    "FI_PROVIDER": (
        "efa",
        "libfabric else falls back to TCP where a card is missing, and nobody sees why it is slow",
    ),
    "FI_EFA_USE_DEVICE_RDMA": (
        "1",
        "cards read the devices' memory; libfabric before 1.18 does not unless told",
    ),
}
_FOR_OLD_KERNELS = {
    "FI_EFA_FORK_SAFE": (
        "1",
        "before kernel 5.15 a fork, as data workers do, moves pages that a card still writes",
    ),
}


def neuron_variables(node: NeuronNode) -> Mapping[str, tuple[str, str]]:
    """Return the value and the reason of each variable that every rank on this node gets."""
    if ".".join(node.compiler.split(".")[:2]) not in RELEASES:
        known = ", ".join(f"{version} (SDK {release})" for version, release in RELEASES.items())
        raise UnknownCompiler(
            f"the installed neuronx-cc is {node.compiler}; its settings are known for {known}",
            hint="bake the AMI from its lock, or add a row to RELEASES in slurm/node/neuron_environment.py",
        )
    found = re.match(r"([0-9]+)\.([0-9]+)", node.kernel)
    kernel = (int(found[1]), int(found[2])) if found else (0, 0)
    has_old_kernel = node.has_efa and kernel < _FORK_SAFE_SINCE
    return {
        "NEURON_RT_ROOT_COMM_ID": (
            f"{node.main_address}:{ROOT_PORT}",
            "ranks of several nodes meet there; the runtime's guide calls it mandatory for collectives",
        ),
        "NEURON_RT_EXEC_TIMEOUT": (
            "600",
            "seconds for one execution, first steps included, in which nodes still load their graphs",
        ),
        **(_FOR_EFA if node.has_efa else {}),
        **(_FOR_OLD_KERNELS if has_old_kernel else {}),
        "NEURON_CC_FLAGS": (
            FLAGS,
            "the compiler's own preset for decoders that are trained; part of the cache's folder",
        ),
        "NEURON_COMPILE_CACHE_URL": (
            node.cache,
            "all nodes load what one compiled; a folder for each compiler and set of flags",
        ),
        "NEURON_RT_STOCHASTIC_ROUNDING_EN": (
            "1",
            "weights in bf16 drift where small updates are always rounded down",
        ),
        "NEURON_FUSE_SOFTMAX": (
            "1",
            "softmax becomes one operation of the compiler instead of four that write to memory",
        ),
        "MALLOC_ARENA_MAX": (
            "64",
            "glibc gives each of a hundred threads an arena, and 32 ranks run out of the node's memory",
        ),
    }


def cache_folder(root: str, compiler: str, flags: str = FLAGS) -> str:
    """Return the folder of the graphs that one compiler compiled with one set of flags."""
    return f"{root}/neuron-cache/{compiler}/{sha256(flags.encode()).hexdigest()[:12]}"


def cache_root(facts: SlurmNodeFacts) -> str:
    return facts.scratch_mount or facts.shared


def installed_compiler(python: RankPython) -> str:
    """Return the version of neuronx-cc that ranks would use; NO_COMPILER if there is none."""
    asked = "from importlib.metadata import version; print(version('neuronx-cc'))"
    try:
        ran = subprocess.run(
            [python.program, "-c", asked],
            capture_output=True,
            text=True,
            check=False,
            timeout=_COMPILER_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired):
        return NO_COMPILER
    said = ran.stdout.strip()
    return said if ran.returncode == 0 and re.fullmatch(r"[0-9][\w.+-]*", said) else NO_COMPILER


def describe(where: SlurmNodePaths, facts: SlurmNodeFacts) -> str:
    """Return the variables as a shell would set them, each below its reason."""
    compiler = installed_compiler(rank_python(where.root))
    if compiler == NO_COMPILER:
        return "# no neuronx-cc is installed here, so ranks get no Neuron variables"
    node = NeuronNode(
        compiler=compiler,
        kernel=os.uname().release,
        has_efa=bool(facts.efa_interfaces),
        main_address="MAIN_NODE",
        cache=cache_folder(cache_root(facts), compiler),
    )
    found = neuron_variables(node)
    lines = [f"# {reason}\nexport {name}='{value}'" for name, (value, reason) in found.items()]
    lines += [f"# {name} is not set: {reason}" for name, reason in LEFT_OUT.items() if name not in found]
    return "\n".join(lines)
