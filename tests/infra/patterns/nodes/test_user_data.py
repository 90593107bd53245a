"""User data is a MIME message that cloud-init reads, and no value in it becomes code."""

from __future__ import annotations

import json
import os
import subprocess
import zlib
from email import message_from_string
from email.message import Message
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
import yaml

from slipway.infra.clusters import CLUSTERS
from slipway.infra.declare.node_images import NodeImage, node_images
from slipway.infra.declare.types import FileSystem
from slipway.infra.patterns.nodes.boot import ECS_MEMBERSHIP, boot_parameters
from slipway.infra.patterns.nodes.first_boot import (
    MOST_BYTES,
    boot_files,
    mime_document,
    node_user_data,
    unpacking,
)
from slipway.infra.patterns.storage.file_systems import SharedFiles
from slipway.jobs.words.installation import PACKAGE
from tests.infra.synthesis import as_text, only, templates_of

BOOT = PACKAGE / "infra" / "boot"
HOSTILE = [
    "$(reboot)",
    "`reboot`",
    "'; reboot; '",
    '"; reboot; "',
    "a\nb: c",
    "--==SLIPWAY==",
    "größe 東京",
    "#cloud-config",
    "\\n%s${x}",
]


def user_data(**changes: Any) -> str:
    data = only(templates_of(**changes).compute, "AWS::EC2::LaunchTemplate")["LaunchTemplateData"]
    return as_text(data["UserData"])


def parts(document: str) -> list[Message]:
    message = message_from_string(document)
    payload = message.get_payload()
    assert message.is_multipart()
    assert isinstance(payload, list)
    return [part for part in payload if isinstance(part, Message)]


def written_files(document: str) -> dict[str, dict[str, str]]:
    (config,) = [part for part in parts(document) if part.get_content_type() == "text/cloud-config"]
    cloud_config = config.get_payload(decode=True)
    assert isinstance(cloud_config, bytes)
    entries = yaml.safe_load(cloud_config.decode())["write_files"]
    return {entry["path"]: entry for entry in entries}


def told_to_node(document: str) -> dict[str, Any]:
    """Return what a node reads at each boot."""
    found: dict[str, Any] = json.loads(written_files(document)["/etc/slipway/node.json"]["content"])
    return found


def test_it_is_one_mime_message_of_one_cloud_config() -> None:
    """A node's scripts for each boot are in its image: a script here would run only at the first boot."""
    assert [part.get_content_type() for part in parts(user_data())] == ["text/cloud-config"]


def test_it_writes_the_one_file_that_the_machine_image_reads() -> None:
    files = written_files(user_data())
    assert {path: entry["permissions"] for path, entry in files.items()} == {"/etc/slipway/node.json": "0444"}


def test_a_node_is_told_its_cluster_and_its_files() -> None:
    told = told_to_node(user_data())
    assert (told["cluster"], told["region"], told["join"]["within_minutes"]) == ("dl1", "us-east-1", 30)
    assert told["files"] == {"kind": "efs", "id": "<…>", "mount_name": "", "path": "/mnt/shared"}


def test_a_node_without_shared_files_is_told_of_none() -> None:
    assert "files" not in told_to_node(user_data(file_system=FileSystem.NONE))


GPU = {"instance_type": "p5.48xlarge"}  # whose nodes boot AWS's own AMI


def unpacked(root: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Run the program of the user data as cloud-init does, below a folder; return what systemd was told."""
    told, program = root / "told", root / "part-001"
    (root / "bin").mkdir()
    systemctl = root / "bin" / "systemctl"
    systemctl.write_text(f'#!/bin/sh\necho "$@" >>{told}\n')
    systemctl.chmod(0o755)
    (hook,) = [part for part in parts(user_data(**GPU)) if part.get_content_type() == "text/cloud-boothook"]
    payload = hook.get_payload(decode=True)
    assert isinstance(payload, bytes)
    program.write_bytes(payload.replace(b'extractall("/")', f'extractall("{root}")'.encode()))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{root / 'bin'}:{os.environ['PATH']}")
    subprocess.run([program], check=True)
    return told.read_text().splitlines()


def test_a_node_of_awss_own_ami_is_brought_what_a_bake_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """User data brings the same scripts and units that the component node-boot installs."""
    told = unpacked(tmp_path, monkeypatch)
    scripts = {*BOOT.glob("*.sh")} - {*BOOT.glob("verify_*")}  # only a bake's tests call these
    installed = {"usr/lib/slipway": scripts, "usr/lib/systemd/system": (BOOT / "units").iterdir()}
    for folder, files in installed.items():
        for file in files:
            found = tmp_path / folder / file.name
            assert found.read_bytes() == file.read_bytes(), file.name
            assert (found.stat().st_mode & 0o777) == (0o755 if file.suffix == ".sh" else 0o644)
    waits = tmp_path / "etc/systemd/system/ecs.service.d/10-slipway.conf"
    assert "Requires=slipway-boot.service" in waits.read_text()
    units = "slipway-packages.service slipway-scratch.service slipway-boot.service slipway-idle.timer"
    assert told == [
        "daemon-reload",
        f"enable --quiet {units} slipway-watchdog.timer",
        f"start --no-block {units} slipway-watchdog.timer",
    ]


def test_every_python_packs_the_boot_scripts_into_the_same_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fedora's zlib and that of Python for Windows pack otherwise: other bytes would replace all nodes."""
    image = node_images()["ecs"]
    here = unpacking(image)
    zlibs = zlib.compressobj
    monkeypatch.setattr(zlib, "compressobj", lambda _level, *settings: zlibs(1, *settings))
    assert unpacking(image) == here


def test_awss_own_agent_keeps_its_settings_and_gets_ours() -> None:
    """In the same file, the GPU AMI lets the agent give GPUs to tasks, and Batch names the cluster."""
    settings = written_files(user_data(**GPU))["/etc/ecs/ecs.config"]
    assert settings["append"]
    assert "ECS_IMAGE_PULL_INACTIVITY_TIMEOUT=30m\n" in settings["content"]
    assert "ECS_AWSVPC_BLOCK_IMDS=true\n" in settings["content"], "a task could take the node's role"


@pytest.mark.parametrize("image", node_images().values(), ids=lambda image: image.name)
def test_every_machine_image_leaves_batch_its_room(image: NodeImage) -> None:
    program = "" if image.is_baked else unpacking(image)
    document = mime_document(boot_files("x" * 1500, image), program)
    assert len(document.encode()) < MOST_BYTES - 1024
    assert document.isascii()


@pytest.mark.parametrize("sort", FileSystem)
def test_it_fits_what_ec2_takes_with_room_for_what_batch_adds(sort: FileSystem) -> None:
    assert len(user_data(file_system=sort).encode()) < MOST_BYTES - 2048


def test_it_is_ascii_because_cloud_init_spoils_the_rest() -> None:
    assert user_data().replace("<…>", "").isascii()


@pytest.mark.parametrize("value", HOSTILE)
def test_a_value_never_leaves_the_parameters_file(value: str) -> None:
    stack = cdk.Stack(cdk.App(), "Stack")
    encoded = stack.resolve(node_user_data({"cluster": value}, node_images()["gaudi-ecs"]))
    document = as_text(encoded)
    assert told_to_node(document) == {"cluster": value}
    harmless = mime_document(boot_files('{"cluster":"x"}', node_images()["gaudi-ecs"]))
    assert len(parts(document)) == len(parts(harmless)) == 1


def test_the_parameters_name_what_lustre_is_mounted_by() -> None:
    files = SharedFiles(
        kind=FileSystem.FSX_LUSTRE,
        file_system_id="fs-1",
        mount_point="/mnt/shared",
        mount_name="abcd",
        security_group_id="sg-1",
        ports=(),
    )
    assert boot_parameters(CLUSTERS[0], files, ECS_MEMBERSHIP)["files"] == {
        "kind": "fsx-lustre",
        "id": "fs-1",
        "mount_name": "abcd",
        "path": "/mnt/shared",
    }
