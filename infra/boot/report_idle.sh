#!/usr/bin/env bash
# slipway-idle.timer: tells CloudWatch whether this node has a job: 1 for a node that is billed and has none, 0 for
# one at work, and 0 for one that has just booted: the alarm that stops idle nodes looks at old values while there
# are no new ones, and would stop a new node before the job that it was started for comes to it.
set -euo pipefail

# shellcheck source=infra/boot/steps.sh
. "$(dirname "${BASH_SOURCE[0]}")/steps.sh"

readonly AGENT=http://localhost:51678/v1/tasks
readonly PROC="${SLIPWAY_PROC:-/proc}"

is_starting() {
  (("$(minutes_since_boot)" < "$(parameter idle_report.after_minutes)"))
}

# A task that still pulls its image counts as work; an ECS agent that does not answer has no task.
has_task() {
  [[ "$(curl --silent --max-time 5 "$AGENT" || true)" =~ \"DesiredStatus\":[[:space:]]*\"RUNNING\" ]]
}

# Every process of a job carries the job's name; one that ends while it is looked at is no mistake.
has_process() {
  grep --quiet --no-messages --null-data '^SLIPWAY_JOB=' "$PROC"/[0-9]*/environ
}

# Slurm runs each step of a job, the batch script too, below a slurmstepd.
has_step() {
  grep --quiet --no-messages '^slurmstepd' "$PROC"/[0-9]*/comm
}

read_parameters

# The login node has no jobs of its own, and stays.
if [[ "$(parameter idle_report.work)" == "login" ]]; then
  exit 0
fi

idle=1
if is_starting || "has_$(parameter idle_report.work)"; then
  idle=0
fi
aws cloudwatch put-metric-data --region "$(parameter region)" \
  --namespace "$(parameter idle_report.namespace)" --metric-name "$(parameter idle_report.metric)" \
  --dimensions "$(parameter idle_report.dimension)=$(parameter cluster)" --unit Count --value "$idle"
