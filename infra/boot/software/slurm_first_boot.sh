#!/usr/bin/env bash
# Prepares a Slurm node on AWS's own AMI before Slurm starts: puts this project into a virtual environment of the AMI's
# Python, which has boto3, and then runs slurm_node.sh and containers.sh.
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

# systemd has to read the new drop-ins; PCS's part of the user data starts Slurm after this.
systemctl daemon-reload
sysctl --quiet --load=/etc/sysctl.d/90-slipway-ports.conf || echo 'slipway: the ports of ranks are not reserved' >&2
# On nodes without accelerators, ranks run on the machine's own files.
if [[ ! -e /etc/slipway/stand-in ]]; then
  "$here/containers.sh"
fi
