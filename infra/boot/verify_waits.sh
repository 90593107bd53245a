#!/usr/bin/env bash
# verify_waits.sh UNIT…: check that each unit, which brings jobs to a node, starts only after a successful boot. systemd
# itself answers, from the files alone: it says which drop-ins it reads, so a folder with a wrong name is found.
set -euo pipefail

if (($# == 0)); then
  echo 'slipway: no unit of the expected name is installed' >&2
  exit 1
fi
for unit in "$@"; do
  said="$(SYSTEMD_LOG_LEVEL=debug SYSTEMD_LOG_TARGET=console systemd-analyze verify --man=no "$unit" 2>&1 || true)"
  for word in Requires After; do
    if ! grep --quiet "^[[:space:]]*$word: slipway-boot\.service " <<<"$said"; then
      echo "slipway: $unit does not wait for slipway-boot.service ($word)" >&2
      exit 1
    fi
  done
done
