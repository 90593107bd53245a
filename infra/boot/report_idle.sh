#!/usr/bin/env bash
# slipway-idle.timer: tells CloudWatch whether this node has a job: 1 for a node that is billed and has none, 0 for
# one at work, and 0 for one that has just booted: the alarm that stops idle nodes looks at old values while there
# are no new ones, and would stop a new node before the job that it was started for comes to it.
set -euo pipefail

# shellcheck source=infra/boot/steps.sh
. "$(dirname "${BASH_SOURCE[0]}")/steps.sh"
# shellcheck source=infra/boot/at_work.sh
. "$(dirname "${BASH_SOURCE[0]}")/at_work.sh"

is_starting() {
  (("$(minutes_since_boot)" < "$(parameter idle_report.after_minutes)"))
}

read_parameters

# The login node has no jobs of its own, and stays.
if [[ "$(parameter idle_report.work)" == "login" ]]; then
  exit 0
fi

idle=1
if is_starting || is_at_work; then
  idle=0
fi
aws cloudwatch put-metric-data --region "$(parameter region)" \
  --namespace "$(parameter idle_report.namespace)" --metric-name "$(parameter idle_report.metric)" \
  --dimensions "$(parameter idle_report.dimension)=$(parameter cluster)" --unit Count --value "$idle"
