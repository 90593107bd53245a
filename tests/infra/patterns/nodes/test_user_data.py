"""A node's first boot: a MIME message that cloud-init reads, and values that stay values."""

from __future__ import annotations

import json
from email import message_from_string
from email.message import Message
from typing import Any

import aws_cdk as cdk
import pytest
import yaml

from slipway.infra.declare.types import FileSystem
from slipway.infra.patterns.nodes.boot import boot_parameters
from slipway.infra.patterns.nodes.user_data import MOST_BYTES, boot_files, mime_document, node_user_data
from slipway.infra.patterns.storage.file_systems import SharedFiles
from tests.infra.synthesis import as_text, only, templates_of

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
    data = only(templates_of(**changes).batch, "AWS::EC2::LaunchTemplate")["LaunchTemplateData"]
    return as_text(data["UserData"])


def parts(document: str) -> list[Message]:
    message = message_from_string(document)
    payload = message.get_payload()
    assert message.is_multipart()
    assert isinstance(payload, list)
    return [part for part in payload if isinstance(part, Message)]


def written_files(document: str) -> dict[str, dict[str, str]]:
    cloud_config = parts(document)[0].get_payload(decode=True)
    assert isinstance(cloud_config, bytes)
    entries = yaml.safe_load(cloud_config.decode())["write_files"]
    return {entry["path"]: entry for entry in entries}


def test_it_is_one_mime_message_of_a_cloud_config_and_a_script() -> None:
    assert [part.get_content_type() for part in parts(user_data())] == [
        "text/cloud-config",
        "text/x-shellscript",
    ]


def test_the_script_arrives_as_it_was_checked() -> None:
    script = parts(user_data())[1].get_payload()
    assert isinstance(script, str)
    assert script.startswith("#!/usr/bin/env bash\n")
    assert script.rstrip().endswith("main")


def test_the_files_that_the_script_calls_are_written_with_their_modes() -> None:
    files = written_files(user_data())
    assert {path: entry["permissions"] for path, entry in files.items()} == {
        "/etc/slipway/node.json": "0444",
        "/usr/local/lib/slipway/boot_steps.sh": "0644",
        "/usr/local/sbin/slipway-report-idle": "0755",
    }
    assert files["/usr/local/sbin/slipway-report-idle"]["content"].startswith("#!/usr/bin/env bash\n")


def test_a_node_is_told_its_cluster_and_its_files() -> None:
    told = json.loads(written_files(user_data())["/etc/slipway/node.json"]["content"])
    assert (told["cluster"], told["region"], told["scratch"]) == ("dl1", "us-east-1", "/scratch")
    assert told["files"] == {"kind": "efs", "id": "<…>", "mount_name": "", "path": "/mnt/shared"}


def test_a_node_without_shared_files_is_told_of_none() -> None:
    told = json.loads(
        written_files(user_data(file_system=FileSystem.NONE))["/etc/slipway/node.json"]["content"]
    )
    assert "files" not in told


@pytest.mark.parametrize("sort", FileSystem)
def test_it_fits_what_ec2_takes_with_room_for_what_batch_adds(sort: FileSystem) -> None:
    assert len(user_data(file_system=sort).encode()) < MOST_BYTES - 2048


def test_it_is_ascii_because_cloud_init_spoils_the_rest() -> None:
    assert user_data().replace("<…>", "").isascii()


@pytest.mark.parametrize("value", HOSTILE)
def test_a_value_never_leaves_the_parameters_file(value: str) -> None:
    stack = cdk.Stack(cdk.App(), "Stack")
    encoded = stack.resolve(node_user_data({"cluster": value}))
    document = as_text(encoded)
    files = written_files(document)
    assert json.loads(files["/etc/slipway/node.json"]["content"]) == {"cluster": value}
    harmless = mime_document(files=boot_files('{"cluster":"x"}'), script="x")
    assert len(parts(document)) == len(parts(harmless)) == 2
    assert value not in str(parts(document)[1].get_payload())


def test_the_parameters_name_what_lustre_is_mounted_by() -> None:
    files = SharedFiles(
        kind=FileSystem.FSX_LUSTRE,
        file_system_id="fs-1",
        mount_point="/mnt/shared",
        mount_name="abcd",
        security_group_id="sg-1",
        ports=(),
    )
    assert boot_parameters("dl1", "us-east-1", files)["files"] == {
        "kind": "fsx-lustre",
        "id": "fs-1",
        "mount_name": "abcd",
        "path": "/mnt/shared",
    }
