# shellcheck shell=sh
# Each shell that logs in finds the programs of Slurm and of this project. AWS's Deep Learning AMI has several releases of
# Slurm, and a controller answers no commands that are newer than itself (Slurm's "Upgrade Guide").
release="$(sed -n 's/.*"slurm_version": "\([0-9.]*\)".*/\1/p' "${SLIPWAY_PARAMETERS:-/etc/slipway/node.json}" 2>/dev/null)"
PATH="${SLIPWAY_ROOT:-}/opt/aws/pcs/scheduler/slurm-$release/bin:$PATH:/opt/slipway/slurm:/opt/slipway/venv/bin"
unset release
