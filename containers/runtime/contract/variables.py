"""The names of the environment variables of a launch, for the code that writes them and reads them.

A new one is one line here. Platforms write most of them, launchers read them, and ranks inherit them.
"""

from __future__ import annotations

# The contract (contract.py): who this process is, and where its files lie.
JOB = "SLIPWAY_JOB"
RUN = "SLIPWAY_RUN"
ATTEMPT = "SLIPWAY_ATTEMPT"
NODE = "SLIPWAY_NODE"
NODES = "SLIPWAY_NODES"
DATA = "SLIPWAY_DATA"
CHECKPOINTS = "SLIPWAY_CHECKPOINTS"
LOGS = "SLIPWAY_LOGS"
ARCHIVE = "SLIPWAY_ARCHIVE"
ACCOUNT = "SLIPWAY_ACCOUNT"
DEADLINE = "SLIPWAY_DEADLINE"
USD_PER_HOUR = "SLIPWAY_USD_PER_HOUR"
TIMEOUT_SECONDS = "SLIPWAY_TIMEOUT_SECONDS"
COLLECTIVE_SECONDS = "SLIPWAY_COLLECTIVE_SECONDS"
PORT = "SLIPWAY_PORT"
MAIN_ADDRESS = "SLIPWAY_MAIN_ADDRESS"  # of node 0, where the launcher names it as only the scheduler knows it
ARRAY_INDEX = "SLIPWAY_ARRAY_INDEX"  # from 0: which part of the work an element of an array of jobs does
ARRAY_SIZE = "SLIPWAY_ARRAY_SIZE"

# The settings of a launcher (settings.py).
PROCESSES_PER_NODE = "SLIPWAY_PROCESSES_PER_NODE"
ACCELERATOR = "SLIPWAY_ACCELERATOR"
ACCELERATORS = "SLIPWAY_ACCELERATORS"
EFA_INTERFACES = "SLIPWAY_EFA_INTERFACES"
HUGE_PAGES = "SLIPWAY_HUGE_PAGES"
# Only a yard sets it: processors stand in for accelerators, and TCP for EFA. A key of ACCELERATOR_FILES says
# that the programs that tell of such devices' health are there nevertheless.
STAND_IN = "SLIPWAY_STAND_IN"
CONFIG_DIGEST = "SLIPWAY_CONFIG_DIGEST"
MARKET = "SLIPWAY_MARKET"
RESUME_AFTER_SIGNALS = "SLIPWAY_RESUME_AFTER_SIGNALS"
RENDEZVOUS_SECONDS = "SLIPWAY_RENDEZVOUS_SECONDS"
HEARTBEAT_SECONDS = "SLIPWAY_HEARTBEAT_SECONDS"
GRACE_SECONDS = "SLIPWAY_GRACE_SECONDS"
HANG_SECONDS = "SLIPWAY_HANG_SECONDS"
SAVE_SECONDS = "SLIPWAY_SAVE_SECONDS"
START_SECONDS = "SLIPWAY_START_SECONDS"

# Between the launchers of a job, and from a launcher to its ranks.
LAUNCH_SECRET = "SLIPWAY_LAUNCH_SECRET"  # known to launchers alone  # noqa: S105
LAUNCHED = "SLIPWAY_LAUNCHED"  # a mark by which the guard finds what it must end
LAUNCHER = "SLIPWAY_LAUNCHER"  # the launcher's process id
PROGRESS_FILE = "SLIPWAY_PROGRESS_FILE"  # where a rank tells its launcher how far it is
EXIT_FILE = "SLIPWAY_EXIT_FILE"  # where rank 0 writes its launcher's exit code, on the main node's own disk

# On the nodes of a Slurm cluster: what compile.slurm and run.slurm tell the script of a model.
PHASE = "SLIPWAY_PHASE"
MODEL = "SLIPWAY_MODEL"

# In a training container of SageMaker: the module that every rank runs.
MODULE = "SLIPWAY_MODULE"
