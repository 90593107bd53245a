#!/usr/bin/env bash
# First boot of a node of AWS Batch: report idleness, stripe the local disks, mount the shared files. Batch
# takes away a node whose job reaches the time limit of the queue, so one that stays out of ECS goes, too.
set -Eeuo pipefail # -E: a failure inside a function has to reach the trap

# shellcheck source=infra/userdata/boot_steps.sh
. "${SLIPWAY_BOOT_STEPS:-/usr/local/lib/slipway/boot_steps.sh}"

main() {
  trap 'refuse_jobs ecs' ERR
  start_idle_report
  prepare_scratch "$(parameter scratch)"
  mount_shared_files "$(parameter files.kind)" "$(parameter files.path)"
}

main
