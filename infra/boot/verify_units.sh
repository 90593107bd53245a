#!/usr/bin/env bash
# verify_units.sh UNIT…: check that the next boot would start each unit. systemd itself answers, from the files alone:
# `systemctl is-enabled` says yes even for a unit that is never started because of a circle of waiting.
set -euo pipefail

folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
# A boot consists of these two: cloud-init's generator adds the second to the first.
printf '[Unit]\nWants=multi-user.target cloud-init.target\n' >"$folder/slipway-next-boot.target"
said="$(SYSTEMD_LOG_LEVEL=debug SYSTEMD_LOG_TARGET=console SYSTEMD_UNIT_PATH="$folder:${SYSTEMD_UNIT_PATH:-}" \
  systemd-analyze verify --man=no "$folder/slipway-next-boot.target" 2>&1 || true)"
if grep 'ordering cycle\|deleted to break' <<<"$said" >&2; then
  echo 'slipway: the units wait for each other in a circle, and systemd never starts some of them' >&2
  exit 1
fi
for unit in "$@"; do
  if ! grep --quiet --fixed-strings "Installed new job $unit/start" <<<"$said"; then
    echo "slipway: the next boot would not start $unit" >&2
    exit 1
  fi
done
