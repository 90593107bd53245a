#!/usr/bin/env python3
"""Cloud-init runs this before any agent, on AMIs that were not baked here: it brings what our bakes hold.

The archive is the comment at the end of this file. Units are queued and not waited for: those that need the
user data start when cloud-init has written it, and Docker and the agents wait for them (infra/boot/units).
"""

import base64
import io
import subprocess
import tarfile
from pathlib import Path

FIRST_WORD = "# archive: "  # of each line of the archive
UNITS = (
    "slipway-packages.service",
    "slipway-scratch.service",
    "slipway-boot.service",
    "slipway-idle.timer",
    "slipway-watchdog.timer",
)


def main() -> None:
    """Write the files of the archive, and let systemd start what is new, at this boot and at later ones."""
    lines = Path(__file__).read_text(encoding="ascii").splitlines()
    packed = "".join(line.removeprefix(FIRST_WORD) for line in lines if line.startswith(FIRST_WORD))
    with tarfile.open(fileobj=io.BytesIO(base64.b64decode(packed)), mode="r:bz2") as archive:
        archive.extractall("/")  # noqa: S202 - of the launch template, which is as trusted as this program
    subprocess.run(["systemctl", "daemon-reload"], check=True)
    subprocess.run(["systemctl", "enable", "--quiet", *UNITS], check=True)
    subprocess.run(["systemctl", "start", "--no-block", *UNITS], check=True)


main()
