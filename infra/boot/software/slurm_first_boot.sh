#!/usr/bin/env bash
# What a node of Slurm on AWS's own AMI lacks, before anything of Slurm starts: this project in a virtual environment of
# the AMI's Python, which has boto3, what slurm_node.sh makes of it, and what runs containers.
set -euo pipefail

here="$(dirname "${BASH_SOURCE[0]}")"
venv=/opt/slipway/venv

rm -rf /opt/slipway/node
python3 -m zipfile --extract "$here"/../../*.whl /opt/slipway/node
if [[ ! -x $venv/bin/python ]]; then
  /usr/bin/python3 -m venv --without-pip --system-site-packages "$venv"
  echo /opt/slipway/node >"$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/slipway.pth"
fi
(cd / && "$venv/bin/python" -c 'import boto3, slipway.jobs.platforms.slurm.node.main')
"$here/slurm_node.sh"

# The drop-ins are new; PCS's part of the user data starts Slurm when this is over.
systemctl daemon-reload
sysctl --quiet --load=/etc/sysctl.d/90-slipway-ports.conf || echo 'slipway: the ports of ranks are not reserved' >&2
# Where processors stand in for accelerators, ranks run on the machine's own files.
if [[ ! -e /etc/slipway/stand-in ]]; then
  "$here/containers.sh"
fi
