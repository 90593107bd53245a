"""A node's user data: a MIME message with the one file that tells it of its cluster.

What a node does at each boot is in its machine image (infra/boot). Batch merges its own part into ours, and
takes user data of a launch template only as MIME multipart (AWS Batch user guide, "Use Amazon EC2 launch
templates"). Values travel as JSON and never as shell, whatever is in them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from aws_cdk import Fn

MOST_BYTES = 16 * 1024  # EC2 user guide, before base64; Batch adds less than a kilobyte

# No part contains it; always the same, so that unchanged nodes keep their launch template.
_BOUNDARY = "==SLIPWAY=="


@dataclass(frozen=True, slots=True, kw_only=True)
class BootFile:
    path: str
    mode: str
    content: str


def node_user_data(parameters: Mapping[str, object]) -> str:
    """Return base64, as a launch template takes it. Values may be tokens of ids, safe in JSON."""
    document = json.dumps(parameters)  # ASCII only: cloud-init reads the message as text and spoils the rest
    return Fn.base64(mime_document(boot_files(document)))


def boot_files(parameters_json: str) -> tuple[BootFile, ...]:
    """Return the files that the scripts of infra/boot read, with their paths."""
    assert "\n" not in parameters_json, "the parameters are one line"
    return (BootFile(path="/etc/slipway/node.json", mode="0444", content=parameters_json),)


def mime_document(files: tuple[BootFile, ...]) -> str:
    cloud_config = "#cloud-config\nwrite_files:\n" + "".join(map(_cloud_config_entry, files))
    head = f'MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary="{_BOUNDARY}"\n\n'
    return f"{head}{_part('text/cloud-config', cloud_config)}--{_BOUNDARY}--\n"


def _cloud_config_entry(file: BootFile) -> str:
    """Indent the file into a literal block of YAML, which takes any text as it is."""
    content = "".join(f"    {line}\n" if line else "\n" for line in file.content.splitlines())
    return f'- path: {file.path}\n  permissions: "{file.mode}"\n  content: |\n{content}'


def _part(content_type: str, content: str) -> str:
    return f'--{_BOUNDARY}\nContent-Type: {content_type}; charset="utf-8"\n\n{content}\n'
