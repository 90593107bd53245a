"""F55: a job that a fault strikes each minute trains for nearly all of the time, to the same weights.

SOAK_MINUTES says for how long on each kind of cluster. A seed draws the faults.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from slipway.yard.machines.hosts import boot_ways
from slipway.yard.machines.isolation.tiers import best_tier
from slipway.yard.services.pcs import differences
from tests.end_to_end.conftest import Shell
from tests.end_to_end.in_process import deployed
from tests.end_to_end.soak import ENDS, Soak

MINUTES = float(os.environ.get("SOAK_MINUTES", "30"))
SEED = int(os.environ.get("SOAK_SEED", "7"))
LEAST_SHARE = 0.9  # of the share that the rates let expect
PLATFORMS = {"dl1": "AWS Batch", "c6i": "MPI", "trn1": "Slurm", "sagemaker": "SageMaker"}
SMALL = {"instance_type": "ml.m5.large", "volume_gb": "30", "file_system": "fsx-lustre"}
SETTINGS: Mapping[str, Mapping[str, str]] = {"sagemaker": SMALL}
# Only root may set a link down, and ranks run as root only in containers of AWS Batch.
UNCUT = tuple(kind for kind in ENDS if kind != "cut")
OBSTACLES = {"trn1": lambda: differences.obstacle() or boot_ways.obstacle_here()}
pytestmark = [pytest.mark.cdk, pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(600 + 180 * MINUTES)]


@pytest.mark.parametrize("cluster", PLATFORMS)
def test_a_job_that_is_struck_each_minute_trains_for_as_long_as_expected(
    shell: Shell, tmp_path: Path, cluster: str, request: pytest.FixtureRequest
) -> None:
    if not best_tier().isolated:
        pytest.skip("this machine can make no namespaces, so its nodes cannot die one by one")
    if why := OBSTACLES.get(cluster, lambda: "")():
        pytest.skip(f"{PLATFORMS[cluster]} of the yard does not run here: {why}")
    with deployed(shell, tmp_path / "assembly", cluster, max_nodes="2", **SETTINGS.get(cluster, {})):
        kinds = tuple(ENDS) if cluster == "dl1" else UNCUT
        soak = Soak(yard=shell, on=cluster, minutes=MINUTES, seed=SEED, kinds=kinds)
        found = soak.run()
    print(json.dumps(found))
    note = (
        f"{PLATFORMS[cluster]}: {found['faults']:g} faults in {MINUTES:g} minutes, of which "
        f"{found['share']:.2f} were training and {found['expected']:.2f} expected"
    )
    told = {"platform": PLATFORMS[cluster], "recovered": f"{found['usual_pause']:.1f}", "note": note}
    request.node.user_properties.extend(told.items())
    assert found["share"] >= LEAST_SHARE * found["expected"], found
