#!/usr/bin/env bash
# Says what counts as work on a node, for report_idle.sh and watch_join.sh; needs steps.sh. To add a kind of work, write
# a function has_<kind>, and name the kind in a Membership (infra/patterns/nodes/boot.py).

readonly TASKS=http://localhost:51678/v1/tasks
readonly PROC="${SLIPWAY_PROC:-/proc}"

is_at_work() {
  "has_$(parameter idle_report.work)"
}

# A task that still pulls its image counts as work; an ECS agent that does not answer has no task.
has_task() {
  [[ "$(curl --silent --max-time 5 "$TASKS" || true)" =~ \"DesiredStatus\":[[:space:]]*\"RUNNING\" ]]
}

# Every process of a job carries the job's name; one that ends in the meantime is no error.
has_process() {
  grep --quiet --no-messages --null-data '^SLIPWAY_JOB=' "$PROC"/[0-9]*/environ
}

# Slurm runs each step of a job, also the batch script, below a slurmstepd.
has_step() {
  grep --quiet --no-messages '^slurmstepd' "$PROC"/[0-9]*/comm
}

# What people do on a login node is no job.
has_login() {
  return 1
}
