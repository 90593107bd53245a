#!/usr/bin/env bash
# What counts as work on a node, for report_idle.sh and watch_join.sh. After steps.sh. A further kind of work is a
# function has_<kind>, and the word of a Membership (infra/patterns/nodes/boot.py).

readonly TASKS=http://localhost:51678/v1/tasks
readonly PROC="${SLIPWAY_PROC:-/proc}"

is_at_work() {
  "has_$(parameter idle_report.work)"
}

# A task that still pulls its image counts as work; an ECS agent that does not answer has no task.
has_task() {
  [[ "$(curl --silent --max-time 5 "$TASKS" || true)" =~ \"DesiredStatus\":[[:space:]]*\"RUNNING\" ]]
}

# Every process of a job carries the job's name; one that ends while it is looked at is no mistake.
has_process() {
  grep --quiet --no-messages --null-data '^SLIPWAY_JOB=' "$PROC"/[0-9]*/environ
}

# Slurm runs each step of a job, the batch script too, below a slurmstepd.
has_step() {
  grep --quiet --no-messages '^slurmstepd' "$PROC"/[0-9]*/comm
}

# People work on a login node, and none of it is a job.
has_login() {
  return 1
}
