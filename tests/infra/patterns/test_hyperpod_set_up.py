"""What a new node of HyperPod runs, run here with programs of our own in place of Slurm's and AWS's."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from io import BytesIO
from pathlib import Path
from zipfile import ZipFile

import pytest

from slipway.infra.patterns.hyperpod.lifecycle import SET_UP, lifecycle_of, write_files
from tests.infra.synthesis import HYPERPOD_CLUSTER

OWN_ADDRESS = "10.1.2.3"
SHELLCHECK = str(Path(sys.executable).parent / "shellcheck")


class Node:
    """A folder that holds what a node has, and a PATH of programs that write down how they were called."""

    def __init__(self, root: Path) -> None:
        self.root, self.calls = root, root / "calls"
        self.conf, self.etc = root / "slurm.conf", root / "etc"
        self.folder = root / "payload" / "hyperpod"
        (self.folder / "steps").mkdir(parents=True)
        (root / "bin").mkdir()
        shutil.copy(SET_UP, self.folder / "set_up.sh")
        for name, text in {
            "slurm.conf": "Prolog=/opt/slipway/slurm/prolog.sh\nJobRequeue=1\n",
            "region": "us-east-1",
            "node-parameter": "/slipway/nodes/pod",
            "controller-group": "controller",
        }.items():
            (self.folder / name).write_text(text)
        self.step("00-nothing.sh", "")
        self.conf.write_text("ClusterName=pod\njobrequeue=0\n")
        self.program("aws", 'echo \'{"cluster": "pod"}\'')
        self.program("scontrol", "")
        self.program("hostname", f"echo {OWN_ADDRESS} fe80::1")

    def program(self, name: str, text: str) -> None:
        path = self.root / "bin" / name
        path.write_text(f'#!/usr/bin/env bash\necho {name} "$@" >>{self.calls}\n{text}\n')
        path.chmod(0o755)

    def step(self, name: str, text: str) -> None:
        (self.folder / "steps" / name).write_text(text)

    def in_group(self, group: str, address: str = OWN_ADDRESS) -> None:
        others = {"Name": "others", "Instances": [{"CustomerIpAddress": "10.9.9.9"}]}
        own = {"Name": group, "Instances": [{"CustomerIpAddress": address}]}
        (self.root / "resource_config.json").write_text(json.dumps({"InstanceGroups": [others, own]}))

    def set_up(self) -> subprocess.CompletedProcess[str]:
        environment = {
            "PATH": f"{self.root / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "SAGEMAKER_RESOURCE_CONFIG_PATH": str(self.root / "resource_config.json"),
            "SLURM_CONF": str(self.conf),
            "SLIPWAY_ETC": str(self.etc),
            "SLIPWAY_PAUSE": "0",
        }
        script = self.folder / "set_up.sh"
        return subprocess.run(["bash", script], env=environment, capture_output=True, text=True, check=False)


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def test_the_controller_takes_the_settings_that_hyperpod_does_not_decide(node: Node) -> None:
    node.in_group("controller")
    ran = node.set_up()
    assert ran.returncode == 0, ran.stderr
    assert node.conf.read_text().splitlines() == [
        "ClusterName=pod",
        "jobrequeue=0",
        "Prolog=/opt/slipway/slurm/prolog.sh",
    ]
    assert "JobRequeue already, and JobRequeue=1 is left out" in ran.stderr
    assert "scontrol reconfigure" in node.calls.read_text()
    assert json.loads((node.etc / "node.json").read_text()) == {"cluster": "pod"}


def test_a_node_that_is_set_up_again_gets_no_setting_twice(node: Node) -> None:
    node.in_group("controller")
    node.set_up()
    once = node.conf.read_text()
    assert node.set_up().returncode == 0
    assert node.conf.read_text() == once


def test_a_worker_changes_nothing_of_slurm(node: Node) -> None:
    node.in_group("workers")
    before = node.conf.read_text()
    assert node.set_up().returncode == 0
    assert node.conf.read_text() == before
    assert "scontrol" not in node.calls.read_text()


def test_a_step_that_fails_once_is_tried_again_and_one_that_always_fails_ends_the_node(node: Node) -> None:
    node.in_group("workers")
    mark = node.root / "mark"
    node.step("01-flaky.sh", f"[[ -e {mark} ]] || {{ touch {mark}; exit 1; }}")
    assert node.set_up().returncode == 0
    node.step("02-broken.sh", "exit 7")
    ran = node.set_up()
    assert ran.returncode != 0
    assert "02-broken.sh failed, try 3 of 3" in ran.stderr


def test_a_node_that_hyperpod_does_not_name_says_so_in_one_line(node: Node) -> None:
    node.in_group("workers", address="10.8.8.8")
    ran = node.set_up()
    assert ran.returncode != 0
    assert "names no instance with the addresses 10.1.2.3" in ran.stderr.splitlines()[-1]


def test_the_payload_holds_steps_of_the_machine_images_own_components_in_sound_shell(tmp_path: Path) -> None:
    lifecycle = lifecycle_of(HYPERPOD_CLUSTER)
    with ZipFile(BytesIO(lifecycle.payload)) as archive:
        archive.extractall(tmp_path)
    steps = sorted((tmp_path / "hyperpod" / "steps").iterdir())
    assert [step.name[3:] for step in steps] == [
        "base-apt-trustkeys.sh",
        "python-venv-installpythonfromvendor.sh",
        "python-venv-installrequirements.sh",
        "slurm-node-adduser.sh",
        "slurm-node-install.sh",
        "neuron-training-downloadfromvendor.sh",
        "neuron-training-provefromvendor.sh",
        "neuron-training-installfromvendor.sh",
    ]
    text = "".join(step.read_text() for step in steps)
    assert "{{" not in text, "every parameter of a component is filled from the lock"
    linted = subprocess.run([SHELLCHECK, "--shell=bash", *steps], capture_output=True, text=True, check=False)
    assert linted.returncode == 0, linted.stdout
    assert "Prolog=/opt/slipway/slurm/prolog.sh" in (tmp_path / "hyperpod" / "slurm.conf").read_text()


def test_a_payload_that_was_changed_on_its_way_is_not_run(tmp_path: Path) -> None:
    script, payload = write_files(tmp_path, lifecycle_of(HYPERPOD_CLUSTER))
    payload.write_bytes(payload.read_bytes() + b"more")
    text = script.read_text().replace("/opt/slipway", str(tmp_path / "slipway"))
    ran = subprocess.run(["bash", "-c", text, str(script)], capture_output=True, text=True, check=False)
    assert ran.returncode != 0
    assert "no payload with the SHA-256" in ran.stderr
    assert not (tmp_path / "slipway" / "payload").exists()
