#!/usr/bin/env bash
# Tells CloudWatch whether this node has a job: 1 for a node that is billed and has none, 0 for one at work.
set -euo pipefail

readonly PARAMETERS="${SLIPWAY_PARAMETERS:-/etc/slipway/node.json}"
readonly AGENT=http://localhost:51678/v1/tasks
readonly PROC="${SLIPWAY_PROC:-/proc}"

parameters="$(python3 -c 'import json, sys
report = json.load(open(sys.argv[1], encoding="utf-8"))
idle = report["idle_report"]
print(report["region"], idle["namespace"], idle["metric"], idle["dimension"], report["cluster"], idle["work"])' \
  "$PARAMETERS")"
read -r region namespace metric dimension cluster work <<<"$parameters"

# A task that still pulls its image counts as work; an ECS agent that does not answer has no task.
has_task() {
  [[ "$(curl --silent --max-time 5 "$AGENT" || true)" =~ \"DesiredStatus\":[[:space:]]*\"RUNNING\" ]]
}

# Every process of a job carries the job's name; one that ends while it is looked at is no mistake.
has_process() {
  grep --quiet --no-messages --null-data '^SLIPWAY_JOB=' "$PROC"/[0-9]*/environ
}

idle=1
if "has_$work"; then
  idle=0
fi
aws cloudwatch put-metric-data --region "$region" --namespace "$namespace" --metric-name "$metric" \
  --dimensions "$dimension=$cluster" --unit Count --value "$idle"
