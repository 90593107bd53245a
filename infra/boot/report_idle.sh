#!/usr/bin/env bash
# slipway-idle.timer: tells CloudWatch whether this node is idle: 1 without a job, 0 with one, and 0 right after the
# boot. The alarm that stops idle nodes uses old values while there are no new ones, so it would otherwise stop a new
# node before its job arrives.
set -euo pipefail

# shellcheck source=infra/boot/steps.sh
. "$(dirname "${BASH_SOURCE[0]}")/steps.sh"
# shellcheck source=infra/boot/at_work.sh
. "$(dirname "${BASH_SOURCE[0]}")/at_work.sh"

is_starting() {
  (("$(minutes_since_boot)" < "$(parameter idle_report.after_minutes)"))
}

read_parameters

# A login node has no jobs, and stays.
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
