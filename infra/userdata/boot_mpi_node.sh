#!/usr/bin/env bash
# First boot of a node that runs jobs over MPI: report idleness, one thread a core, stripe the local disks,
# mount the shared files. The units of the machine image do the rest: sshd, and slipway-node, which joins.
set -Eeuo pipefail # -E: a failure inside a function has to reach the trap

# shellcheck source=infra/userdata/boot_steps.sh
. "${SLIPWAY_BOOT_STEPS:-/usr/local/lib/slipway/boot_steps.sh}"

readonly SMT_CONTROL="${SLIPWAY_SMT_CONTROL:-/sys/devices/system/cpu/smt/control}"

main() {
  trap 'refuse_jobs slipway-node' ERR
  start_idle_report
  one_thread_per_core "$(parameter smt)"
  prepare_scratch "$(parameter scratch)"
  mount_shared_files "$(parameter files.kind)" "$(parameter files.path)"
}

# Bare metal has no CPU options that EC2 could set, so Linux takes the second threads away (kernel
# documentation, "CPU hotplug in the Kernel").
one_thread_per_core() {
  if [[ "$1" == "off" ]]; then
    echo off >"$SMT_CONTROL"
  fi
}

main
