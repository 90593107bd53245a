"""How SMP's parameters travel in CreateTrainingJob: the hyper-parameters that SageMaker's toolkit reads.

SageMaker's SDK v2 builds the same from `distribution`; tests compare ours with it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from slipway.jobs.words.smp.parameters import Value
from slipway.jobs.words.smp.smp_v1 import SmpV1
from slipway.jobs.words.smp.smp_v2 import SmpV2

Smp = SmpV1 | SmpV2
PARAMETERS = "mp_parameters"


def hyper_parameters(smp: Smp, instance_type: str, processes_per_host: int) -> dict[str, str]:
    """Return each as JSON, as the toolkit reads it; SMP v1 starts ranks by MPI, and SMP v2 by torchrun."""
    found: dict[str, object] = {
        PARAMETERS: smp.parameters(),
        "sagemaker_distributed_dataparallel_enabled": False,
        "sagemaker_instance_type": instance_type,
        **_LAUNCHERS[type(smp)](processes_per_host),
    }
    return {name: json.dumps(value) for name, value in found.items()}


def distribution(smp: Smp, processes_per_host: int) -> dict[str, Mapping[str, object]]:
    """Return the argument of this name as estimators of SageMaker's SDK v2 take it."""
    library = {"modelparallel": {"enabled": True, "parameters": smp.parameters()}}
    if isinstance(smp, SmpV2):
        return {"torch_distributed": {"enabled": True}, "smdistributed": library}
    return {"smdistributed": library, "mpi": {"enabled": True, "processes_per_host": processes_per_host}}


def _by_mpi(processes_per_host: int) -> dict[str, Value]:
    return {
        "sagemaker_mpi_enabled": True,
        "sagemaker_mpi_num_of_processes_per_host": processes_per_host,
        "sagemaker_mpi_custom_mpi_options": "",
    }


def _by_torchrun(_: int) -> dict[str, Value]:
    return {"sagemaker_torch_distributed_enabled": True}


_LAUNCHERS = {SmpV1: _by_mpi, SmpV2: _by_torchrun}
