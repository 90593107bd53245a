"""What AWS PCS adds to the user data of a launch template: the parts that make an instance a node.

PCS user guide, "Working with Amazon EC2 user data for AWS PCS": #cloud-config runs before the instance
registers; scripts run after that and before Slurm's daemon starts.
"""

from __future__ import annotations

import base64
import email
import gzip
from email.message import Message
from email.mime.multipart import MIMEMultipart
from email.mime.text import MIMEText
from importlib.resources import files

from slipway.jobs.words import slurm

PLACE = "/opt/aws/pcs/bin/pcs-agent"
_SCRIPT = "x-shellscript"
_INSTALL = """\
#!/bin/bash
set -e
mkdir -p {folder}
cat >{place} <<'AGENT_OF_THE_YARD'
#!{python}
{text}
AGENT_OF_THE_YARD
chmod 755 {place}
exec {place} register {cluster} {region}
"""
_START = f"#!/bin/bash\nexec {PLACE} start\n"


def is_mime(encoded: str) -> bool:
    """Return True for user data that PCS can add to: none, or a MIME archive of several parts."""
    text = _text(encoded)
    return not text.strip() or email.message_from_string(text).is_multipart()


def merged(encoded: str, cluster: str, region: str) -> str:
    """Return the user data of an instance: the template's parts, and PCS's around its scripts."""
    parts = _parts(_text(encoded))
    scripts = [part for part in parts if part.get_content_subtype() == _SCRIPT]
    found = MIMEMultipart("mixed")
    for part in (part for part in parts if part not in scripts):
        found.attach(part)
    found.attach(MIMEText(_register(cluster, region), _SCRIPT, "utf-8"))
    for part in scripts:
        found.attach(part)
    found.attach(MIMEText(_START, _SCRIPT, "utf-8"))
    return base64.b64encode(found.as_bytes()).decode()


def _register(cluster: str, region: str) -> str:
    text = files("slipway").joinpath("yard/services/pcs/inside/agent.py").read_text(encoding="utf-8")
    return _INSTALL.format(
        folder=PLACE.rpartition("/")[0],
        place=PLACE,
        python=slurm.PYTHON,
        text=text,
        cluster=cluster,
        region=region,
    )


def _text(encoded: str) -> str:
    raw = base64.b64decode(encoded or "")
    return (gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw).decode("utf-8", errors="replace")


def _parts(text: str) -> list[Message]:
    found = email.message_from_string(text)
    return [part for part in found.walk() if not part.is_multipart()] if found.is_multipart() else []
