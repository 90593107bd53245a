#!/usr/bin/env bash
# First boot of a node of AWS Batch: report idleness, stripe the local disks, mount the shared files. A node that
# stays out of ECS is not taken away: its job waits in RUNNABLE for a reason that Batch calls UNDETERMINED, to
# which a queue's time limit cannot be attached. It costs money until somebody cancels the job.
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
