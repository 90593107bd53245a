"""What a PCS cluster becomes in Slurm's own files, and what an instance is told to join it."""

from __future__ import annotations

import base64
import email
from typing import Any

import pytest

from slipway.yard.services.pcs import nodes, slurm_conf
from slipway.yard.services.pcs.slurm_conf import NodeRange, Partition, SlurmSettings
from slipway.yard.services.recorded import StoredRecord
from tests.yard.services.pcs.pcs_site import MIME, SCRIPT

WORKERS = NodeRange(
    name="workers",
    smallest=1,
    largest=4,
    vcpus=128,
    memory_mib=498073,
    settings={"Gres": "neuron:16"},
    gres=({"Name": "neuron", "File": "/dev/neuron[0-15]"},),
)
TRAIN = Partition(name="train", groups=(WORKERS,), settings={"Default": "YES", "MaxTime": "60"})


def lines(**settings: str) -> dict[str, str]:
    cluster = SlurmSettings(
        name="trn", address="10.0.0.4", groups=(WORKERS,), partitions=(TRAIN,), settings=settings
    )
    found = slurm_conf.slurm_conf(cluster).splitlines()
    return {line.partition("=")[0]: line.partition("=")[2] for line in found}


def test_nodes_are_clouds_with_the_processors_and_devices_of_their_instance_type() -> None:
    node = lines()["NodeName"]
    assert node == "workers-[1-4] CPUs=128 RealMemory=498073 Gres=neuron:16 State=CLOUD"
    assert lines()["GresTypes"] == "neuron"
    assert lines()["SuspendExcNodes"] == "workers-1"


def test_a_queues_own_settings_are_its_partitions() -> None:
    said = lines()["PartitionName"]
    assert said == "train Nodes=workers-[1-4] MaxTime=60 State=UP Default=YES"


def test_a_cluster_has_nodes_before_it_has_a_queue() -> None:
    found = slurm_conf.slurm_conf(SlurmSettings(name="trn", address="10.0.0.4", groups=(WORKERS,)))
    assert "PartitionName=no-queue-yet Hidden=YES State=INACTIVE" in found


def test_devices_by_file_are_counted_since_no_machine_here_has_them() -> None:
    assert slurm_conf.gres_conf([WORKERS]) == "NodeName=workers-[1-4] Name=neuron Count=16\n"


GPUS = {
    "gresCustomSettings": [{"Name": "gpu", "Type": "h100", "File": "/dev/nvidia[0-3]"}],
    "slurmCustomSettings": [{"parameterName": "Gres", "parameterValue": "gpu:h100:4"}],
}


@pytest.mark.parametrize(
    ("instance_type", "given", "setting", "conf"),
    [
        ("p5.48xlarge", {}, "gpu:8", "Name=gpu File=/dev/null\n" * 8),
        ("p5.48xlarge", GPUS, "gpu:h100:4", "Name=gpu Type=h100 File=/dev/null\n" * 4),
        ("trn1.32xlarge", {}, None, ""),
    ],
)
def test_pcs_makes_the_record_of_gpus_itself_unless_one_is_given(
    instance_type: str, given: dict[str, Any], setting: str | None, conf: str
) -> None:
    """AWS PCS user guide, "Configuring custom GRES settings in AWS PCS": of NVIDIA's, and of no other."""
    record = StoredRecord(
        kind="ComputeNodeGroup",
        name="w",
        arn="arn",
        region="us-east-1",
        given={
            "instanceConfigs": [{"instanceType": instance_type}],
            "scalingConfiguration": {"minInstanceCount": 0, "maxInstanceCount": 2},
            "slurmConfiguration": given,
        },
        facts={},
        tags={},
    )
    found = slurm_conf.node_group(record)
    assert found.settings.get("Gres") == setting
    lines = slurm_conf.gres_conf([found]).splitlines(keepends=True)
    assert len(set(lines)) == len(lines), "slurmd refuses two of one file"
    assert "".join(lines).replace("NodeName=w-[1-2] ", "").replace("./", "") == conf


def test_a_setting_that_debians_slurm_has_not_is_left_out_and_named() -> None:
    own = {"Prolog": "/opt/prolog.sh", "HashPlugin": "hash/sha3"}
    found = lines(**own)
    assert (found["Prolog"], "HashPlugin" in found) == ("/opt/prolog.sh", False)
    assert slurm_conf.left_out(own) == ["HashPlugin"]


def test_an_instance_registers_before_the_scripts_of_user_data_and_starts_slurmd_after_them() -> None:
    encoded = base64.b64encode(MIME.format(SCRIPT).encode()).decode()
    text = base64.b64decode(nodes.merged(encoded, "pcs_1234567890", "us-east-1")).decode()
    parts = [part for part in email.message_from_string(text).walk() if not part.is_multipart()]
    scripts = [str(part.get_payload(decode=True)) for part in parts]
    assert [
        next(word for word in ("register pcs_1234567890", "of user data", "agent start") if word in script)
        for script in scripts
    ] == ["register pcs_1234567890", "of user data", "agent start"]


def test_user_data_that_is_no_archive_cannot_be_added_to() -> None:
    assert nodes.is_mime("")
    assert not nodes.is_mime(base64.b64encode(b"#!/bin/bash\n").decode())
