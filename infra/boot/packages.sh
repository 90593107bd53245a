#!/usr/bin/env bash
# slipway-packages.service: installs programs that the scripts here call and AWS's own AMIs lack. A node works without
# them, but uses one local disk only and reports nothing to CloudWatch; the watchdog can still end it.
set -euo pipefail

declare -A packages=([aws]=awscli-2 [mdadm]=mdadm [mkfs.xfs]=xfsprogs)
missing=()
for program in "${!packages[@]}"; do
  command -v "$program" >/dev/null || missing+=("${packages[$program]}")
done
if ((${#missing[@]} == 0)); then
  exit 0
fi
# Amazon Linux has its repositories in S3, which nodes without internet reach through the gateway endpoint.
timeout 300 dnf install --assumeyes --quiet "${missing[@]}"
