"""What a family of accelerators is to us: one row each, and a row for processors alone.

Nothing else decides by accelerator. A new family is a row of FAMILIES, and what only it has: a container, a
health check, a machine image of ours where AWS keeps none. What a row names and nobody has verified on AWS
says so; docs/roads/gpu.md and the other roads repeat it to users.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from slipway.jobs.words.catalogue.instances import InstanceType

CPU = "cpu"


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """Describes a family; `nodes` and `container` are what clusters of it get unless they declare others."""

    device: str  # in a recipe's ACCELERATORS
    # The machine image that nodes boot, by the kind of cluster: a bake of ours (a folder of
    # containers/images) or one of AWS's (jobs/words/images/aws_images.py). A kind that is missing has no way
    # to drive the family.
    nodes: Mapping[str, str]
    container: (
        str  # of ranks, by its folder of containers/images; of no use where ranks run on the node itself
    )
    files: str = (
        ""  # in ACCELERATOR_FILES of containers/runtime/contract/settings.py, which counts them in /dev
    )
    driver: str = ""  # as the lock of an image that holds it calls it
    gres: str = ""  # what Slurm calls it, in `--gres` and in its own files
    efa_variables: Mapping[str, str] = field(default_factory=dict)  # of every rank where nodes have EFA
    container_variables: Mapping[str, str] = field(default_factory=dict)  # of every container
    container_devices: str = ""  # each device that a container is given by its path; {} is its number
    counted_as_gpus: bool = False  # AWS Batch and AWS PCS give them out themselves
    huge_pages: int = 0  # of 2 MiB, that a node reserves at its boot
    ranks_per_device: int = 1
    all_reduce_floor_gb_s: float = 0  # over all devices of a node; Slurm drains a node that is slower


PROCESSORS = Family(device=CPU, nodes={"batch": "ecs", "mpi": "cpu-mpi", "slurm": "pcs"}, container="pytorch")
# AWS publishes no container for training on processors of arm64: ours is built, by `slipway image build`.
_PROCESSORS_OF = {"x86_64": PROCESSORS, "arm64": replace(PROCESSORS, container="cpu")}

# The node that people and `slipway` log in to, by architecture.
LOGIN_TYPES: Mapping[str, str] = {"x86_64": "c6i.large", "arm64": "c7g.large"}

# They run models, or our images lack their software: nothing of ours trains on them.
UNUSABLE: Mapping[str, str] = {
    "AMD": "radeon",
    "Inferentia": "inferentia",
    "Inferentia2": "inferentia2",
    "Qualcomm": "ai100",
}

_NEURON_OVER_EFA = {"FI_PROVIDER": "efa", "FI_EFA_USE_DEVICE_RDMA": "1"}

# NVIDIA's open kernel modules, which AWS's AMIs hold, begin with Turing (NVIDIA/open-gpu-kernel-modules,
# README): earlier devices run where AWS brings the machine.
_BEFORE_TURING = Family(
    device="cuda", nodes={}, container="pytorch", files="nvidia", driver="nvidia-driver", gres="gpu"
)

# By the first words of the accelerator's name in the catalogue; the longest that fit count.
FAMILIES: Mapping[str, Family] = {
    "Habana": Family(
        device="gaudi",
        nodes={"batch": "gaudi-ecs", "mpi": "gaudi-mpi"},
        container="gaudi",
        files="habana",
        driver="synapseai",
        gres="gaudi",
        # Gaudi Direct: the network card reads the accelerator's memory. HCCL_OVER_OFI=1 would switch that off
        # (Intel Gaudi documentation, "Scale-out via host NICs"), so it is not set.
        efa_variables={"RDMAV_FORK_SAFE": "1", "FI_EFA_USE_DEVICE_RDMA": "1"},
        # The devices come from habanalabs-container-runtime, which our machine image makes Docker's default
        # runtime, because Batch cannot choose one: HABANA_VISIBLE_DEVICES asks it for them. The vendor's own
        # docker commands run without --privileged this way; through Batch it has not been tried on AWS.
        container_variables={
            "HABANA_VISIBLE_DEVICES": "all",
            "HCCL_SOCKET_IFNAME": "eth0",
            "OMPI_MCA_btl_vader_single_copy_mechanism": "none",
        },
        huge_pages=15_000,  # the same, "Bare metal installation"
    ),
    # libfabric and the NCCL plug-in choose by themselves; settings from older guides only slow them down.
    "NVIDIA": Family(
        device="cuda",
        nodes={"batch": "ecs-nvidia", "slurm": "pcs"},
        container="pytorch",
        files="nvidia",
        driver="nvidia-driver",
        gres="gpu",  # AWS PCS makes this record itself, with the files of the devices
        counted_as_gpus=True,
    ),
    "NVIDIA V100": _BEFORE_TURING,
    # Its software is frozen at SDK 2.28.1, and a newer driver ends its training
    # (containers/images/neuron-slurm): AWS's own AMIs have the newest driver only.
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
        # A link that is down leaves a tenth of the 384 GB/s that are promised between chips; nobody has
        # measured the floor on Trainium for this project.
        all_reduce_floor_gb_s=20,
    ),
    # Eight cores a chip, joined by two into four logical ones: LNC=2, the default (Neuron documentation,
    # "Logical NeuronCore configuration"). For code of one's own, on AWS's AMI of the newest driver.
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
    """Return the family of the type's accelerators, or that of processors; refuse nothing."""
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
    """Return what the recipes would call accelerators that nothing of ours trains on; else nothing."""
    accelerator = instance_type.accelerator
    return UNUSABLE.get(accelerator.name.split()[0], "") if accelerator else ""


def gres_of(instance_type: InstanceType) -> str:
    """Return what a job on Slurm asks of each node for all of its devices, such as gpu:8; "" for none."""
    family, accelerator = family_of(instance_type), instance_type.accelerator
    return f"{family.gres}:{accelerator.count}" if family and accelerator else ""


def device_of(instance_type: InstanceType) -> str:
    """Name what the processes on a node of this type train on, in the recipes' words."""
    family = family_of(instance_type)
    return family.device if family else unusable(instance_type) or CPU


def ranks_of(instance_type: InstanceType) -> int:
    """Count the ranks that use every device of a node; none where it has no accelerator to train on."""
    family, accelerator = family_of(instance_type), instance_type.accelerator
    return accelerator.count * family.ranks_per_device if family and accelerator else 0
