#!/usr/bin/env bash
# verify_units.sh UNIT…: would each unit be started by the next boot? systemd itself answers, from the files alone:
# `systemctl is-enabled` says yes of a unit whose start is dropped because it waits for what waits for it.
set -euo pipefail

folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
# Of these two a boot consists: cloud-init's generator adds the second one to the first.
printf '[Unit]\nWants=multi-user.target cloud-init.target\n' >"$folder/slipway-next-boot.target"
said="$(SYSTEMD_LOG_LEVEL=debug SYSTEMD_LOG_TARGET=console SYSTEMD_UNIT_PATH="$folder:${SYSTEMD_UNIT_PATH:-}" \
  systemd-analyze verify --man=no "$folder/slipway-next-boot.target" 2>&1 || true)"
if grep 'ordering cycle\|deleted to break' <<<"$said" >&2; then
  echo 'slipway: the units wait for each other in a circle, and systemd starts some of them never' >&2
  exit 1
fi
for unit in "$@"; do
  if ! grep --quiet --fixed-strings "Installed new job $unit/start" <<<"$said"; then
    echo "slipway: the next boot would not start $unit" >&2
    exit 1
  fi
done
