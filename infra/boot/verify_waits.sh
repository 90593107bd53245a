#!/usr/bin/env bash
# verify_waits.sh UNIT…: does each unit, which brings a node its jobs, start only after a boot that went well? systemd
# itself answers, from the files alone: it says which drop-ins it reads, and a folder of another name is none.
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
