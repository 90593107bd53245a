#!/usr/bin/env bash
# slipway-packages.service: what AWS's own AMIs lack of what the scripts here call. A node without them works: its local
# disks are not one, and CloudWatch hears nothing of it; the watchdog ends it all the same.
set -euo pipefail

declare -A packages=([aws]=awscli-2 [mdadm]=mdadm [mkfs.xfs]=xfsprogs)
missing=()
for program in "${!packages[@]}"; do
  command -v "$program" >/dev/null || missing+=("${packages[$program]}")
done
if ((${#missing[@]} == 0)); then
  exit 0
fi
# Amazon Linux keeps its repositories in S3, which nodes without internet reach through the gateway endpoint.
timeout 300 dnf install --assumeyes --quiet "${missing[@]}"
