#!/usr/bin/env bash
# What makes an instance with Slurm and /opt/slipway/venv a node of this project: the user that jobs run as, what Slurm
# runs around a job, and the wait of its daemons for the node's files. The bake of a node runs it, and on AWS's own AMI
# the first boot. All of it may run again.
set -euo pipefail

here="$(dirname "${BASH_SOURCE[0]}")"

# One number on every node: it owns the files that they share.
if ! id slipway >/dev/null 2>&1; then
  groupadd --gid 6600 slipway
  useradd --uid 6600 --gid 6600 --home-dir /shared/home/slipway --no-create-home --shell /bin/bash slipway
fi
install -d -m 0755 /etc/slipway /opt/slipway/slurm

# slurmd and people find these by a path that no version of Python is part of.
scripts="$(cd / && /opt/slipway/venv/bin/python -c '
from importlib.resources import files
print(files("slipway.jobs.platforms.slurm") / "scripts")')"
install -m 0755 "$scripts"/* /opt/slipway/slurm/

# A job that comes before its files are mounted would write to the disk of the node, and find no data. AWS's installer
# names units after the version of Slurm, such as slurmd-25.05.service, and systemd reads drop-ins of
# `slurmd-.service.d` for each unit whose name begins so (systemd.unit(5)).
cp --recursive --no-target-directory "$here/../agents/slurm/etc" /etc

# shellcheck disable=SC2016  # each shell that logs in expands it
printf '%s\n' 'for folder in /opt/aws/pcs/scheduler/slurm-*/bin; do' \
  '  [ ! -x "$folder/sbatch" ] || PATH="$folder:$PATH"' 'done' \
  'PATH="$PATH:/opt/slipway/slurm:/opt/slipway/venv/bin"' >/etc/profile.d/slipway-slurm.sh
