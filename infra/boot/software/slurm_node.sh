#!/usr/bin/env bash
# Makes an instance with Slurm and /opt/slipway/venv a node of this project: adds the jobs' user, the scripts that Slurm
# runs around a job, and lets Slurm's daemons wait for the node's files. The bake runs it, or the first boot of AWS's own
# AMI. It can be run again.
set -euo pipefail

here="$(dirname "${BASH_SOURCE[0]}")"

# The user has the same number on every node, because it owns the shared files.
if ! id slipway >/dev/null 2>&1; then
  groupadd --gid 6600 slipway
  useradd --uid 6600 --gid 6600 --home-dir /shared/home/slipway --no-create-home --shell /bin/bash slipway
fi
install -d -m 0755 /etc/slipway /opt/slipway/slurm

# slurmd and people find these at a path without Python's version.
scripts="$(cd / && /opt/slipway/venv/bin/python -c '
from importlib.resources import files
print(files("slipway.jobs.platforms.slurm") / "scripts")')"
install -m 0755 "$scripts"/* /opt/slipway/slurm/

# A job that starts before its files are mounted would find no data, and write to the node's disk. AWS's installer names
# units after the version of Slurm, such as slurmd-25.05.service; systemd reads the drop-ins in `slurmd-.service.d` for
# each unit whose name begins so (systemd.unit(5)).
cp --recursive --no-target-directory "$here/../agents/slurm/etc" /etc
