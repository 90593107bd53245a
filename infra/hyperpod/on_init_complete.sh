#!/usr/bin/env bash
# HyperPod runs this on each new node, beside the payload, once its own AMI has set up Slurm and mounted the files
# (SageMaker API reference, ClusterLifeCycleConfig, OnInitComplete). Synthesis writes the payload's digest.
set -euo pipefail
cd "$(dirname "$0")"
install -d -m 0755 /opt/slipway
for file in *.zip; do
  if echo "PAYLOAD_SHA256  $file" | sha256sum --check --strict --status; then
    python3 -m zipfile --extract "$file" /opt/slipway/payload
    exec bash /opt/slipway/payload/hyperpod/set_up.sh
  fi
done
echo "slipway: no payload with the SHA-256 PAYLOAD_SHA256 lies beside $0" >&2
exit 1
