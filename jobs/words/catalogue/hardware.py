"""Describes each family of accelerators in one row, and processors alone in another.

Nothing else decides by accelerator. A new family is a row of FAMILIES and what only it needs: a container, a
health check, a machine image of ours if AWS has none. A value that was not tried on AWS says so in a comment;
docs/roads/gpu.md and the other roads repeat that to users.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from slipway.jobs.words.catalogue.instances import InstanceType

CPU = "cpu"


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """Describes a family. Its clusters get `nodes` and `container` unless they declare others."""

    device: str  # name in a recipe's ACCELERATORS
    # The machine image of nodes, by kind of cluster: a bake of ours (a folder of containers/images) or an AMI
    # of AWS's (jobs/words/images/aws_images.py). A kind without an entry has no way to drive the family.
    nodes: Mapping[str, str]
    # The ranks' container, a folder of containers/images; unused if ranks run on the node itself.
    container: str
    # A key of ACCELERATOR_FILES in containers/runtime/contract/settings.py, which counts devices in /dev.
    files: str = ""
    driver: str = ""  # the driver's name in an image's lock
    gres: str = ""  # Slurm's name, in `--gres` and in its own files
    efa_variables: Mapping[str, str] = field(default_factory=dict)  # of every rank, if the nodes have EFA
    container_variables: Mapping[str, str] = field(default_factory=dict)  # of every container
    container_devices: str = ""  # path of each device that a container gets; {} is its number
    counted_as_gpus: bool = False  # True: AWS Batch and AWS PCS assign them to jobs themselves
    huge_pages: int = 0  # of 2 MiB, reserved when a node boots
    ranks_per_device: int = 1
    all_reduce_floor_gb_s: float = 0  # GB/s over all devices of a node; Slurm gives a slower node back


PROCESSORS = Family(device=CPU, nodes={"batch": "ecs", "mpi": "cpu-mpi", "slurm": "pcs"}, container="pytorch")
# AWS publishes no training container for arm64 processors: `slipway image build` builds ours.
_PROCESSORS_OF = {"x86_64": PROCESSORS, "arm64": replace(PROCESSORS, container="cpu")}

# The node to which users and `slipway` log in, by architecture.
LOGIN_TYPES: Mapping[str, str] = {"x86_64": "c6i.large", "arm64": "c7g.large"}

# Only for inference, or our images lack their software: no recipe of ours trains on them.
UNUSABLE: Mapping[str, str] = {
    "AMD": "radeon",
    "Inferentia": "inferentia",
    "Inferentia2": "inferentia2",
    "Qualcomm": "ai100",
}

_NEURON_OVER_EFA = {"FI_PROVIDER": "efa", "FI_EFA_USE_DEVICE_RDMA": "1"}

# NVIDIA's open kernel modules, which AWS's AMIs have, support Turing and later
# (NVIDIA/open-gpu-kernel-modules, README): earlier devices need machines that AWS brings, as SageMaker does.
_BEFORE_TURING = Family(
    device="cuda", nodes={}, container="pytorch", files="nvidia", driver="nvidia-driver", gres="gpu"
)

# By the first words of an accelerator's name in the catalogue; the longest match wins.
FAMILIES: Mapping[str, Family] = {
    "Habana": Family(
        device="gaudi",
        nodes={"batch": "gaudi-ecs", "mpi": "gaudi-mpi"},
        container="gaudi",
        files="habana",
        driver="synapseai",
        gres="gaudi",
        # Gaudi Direct: the network card reads the accelerator's memory. HCCL_OVER_OFI=1 would turn that off
        # (Intel Gaudi documentation, "Scale-out via host NICs"), so it is not set.
        efa_variables={"RDMAV_FORK_SAFE": "1", "FI_EFA_USE_DEVICE_RDMA": "1"},
        # habanalabs-container-runtime gives containers the devices that HABANA_VISIBLE_DEVICES names. Our
        # machine image makes it Docker's default runtime, because Batch cannot choose one. The vendor's own
        # docker commands work this way without --privileged; through Batch it has not been tried on AWS.
        container_variables={
            "HABANA_VISIBLE_DEVICES": "all",
            "HCCL_SOCKET_IFNAME": "eth0",
            "OMPI_MCA_btl_vader_single_copy_mechanism": "none",
        },
        huge_pages=15_000,  # Intel Gaudi documentation, "Bare metal installation"
    ),
    # libfabric and the NCCL plug-in choose well themselves; settings from older guides only slow them down.
    "NVIDIA": Family(
        device="cuda",
        nodes={"batch": "ecs-nvidia", "slurm": "pcs"},
        container="pytorch",
        files="nvidia",
        driver="nvidia-driver",
        gres="gpu",  # AWS PCS writes this record itself, with the devices' files
        counted_as_gpus=True,
    ),
    "NVIDIA V100": _BEFORE_TURING,
    # Its software ends with SDK 2.28.1, and a newer driver cannot train on it
    # (containers/images/neuron-slurm): AWS's own AMIs have only the newest driver.
    "Trainium1": Family(
        device="neuron",
        nodes={"slurm": "neuron-slurm"},
        container="neuron",
        files="neuron",
        driver="neuron-driver",
        gres="neuron",
        efa_variables=_NEURON_OVER_EFA,
        container_variables={"CCOM_SOCKET_IFNAME": "eth0"},
        container_devices="/dev/neuron{}",
        ranks_per_device=2,  # NeuronCores
        # A broken link leaves a tenth of the promised 384 GB/s between chips; nobody has measured the floor
        # on Trainium for this project.
        all_reduce_floor_gb_s=20,
    ),
    # Eight cores in a chip, joined in pairs into four logical ones: LNC=2, the default (Neuron documentation,
    # "Logical NeuronCore configuration"). For users' own code, on AWS's AMI of the newest driver.
    "Trainium2": Family(
        device="neuron2",  # no recipe of ours trains there: those for "neuron" need the SDK of Trainium1
        nodes={"batch": "ecs-neuron"},
        container="neuron",
        files="neuron",
        driver="neuron-driver",
        gres="neuron",
        efa_variables=_NEURON_OVER_EFA,
        container_variables={"CCOM_SOCKET_IFNAME": "eth0", "NEURON_LOGICAL_NC_CONFIG": "2"},
        container_devices="/dev/neuron{}",
        ranks_per_device=4,
    ),
}


def hardware_of(instance_type: InstanceType) -> Family:
    """Return the family of the type's accelerators, or of its processors; refuse no type."""
    return family_of(instance_type) or _PROCESSORS_OF[instance_type.architecture]


def family_of(instance_type: InstanceType) -> Family | None:
    """Return the family of the type's accelerator; None if it has none, or one that nothing trains on."""
    if instance_type.accelerator is None or unusable(instance_type):
        return None
    name = instance_type.accelerator.name
    found = [words for words in FAMILIES if f"{name} ".startswith(f"{words} ")]
    assert found, f"{__name__} has no row for {name}"
    return FAMILIES[max(found, key=len)]


def unusable(instance_type: InstanceType) -> str:
    """Return the recipes' name of accelerators that nothing of ours trains on; "" for all others."""
    accelerator = instance_type.accelerator
    return UNUSABLE.get(accelerator.name.split()[0], "") if accelerator else ""


def gres_of(instance_type: InstanceType) -> str:
    """Return the gres of all devices of a node, such as gpu:8, which a job on Slurm requests; "" for none."""
    family, accelerator = family_of(instance_type), instance_type.accelerator
    return f"{family.gres}:{accelerator.count}" if family and accelerator else ""


def device_of(instance_type: InstanceType) -> str:
    """Return the recipes' name of what processes on a node of this type train on."""
    family = family_of(instance_type)
    return family.device if family else unusable(instance_type) or CPU


def ranks_of(instance_type: InstanceType) -> int:
    """Return the number of ranks that use every device of a node; None without a usable accelerator."""
    family, accelerator = family_of(instance_type), instance_type.accelerator
    return accelerator.count * family.ranks_per_device if family and accelerator else 0
