#!/usr/bin/env bash
# Tells CloudWatch whether this node has a task: 1 for a node that is billed and has none, 0 for one at
# work. A task that still pulls its image counts as work; an ECS agent that does not answer has no task.
set -euo pipefail

readonly PARAMETERS="${SLIPWAY_PARAMETERS:-/etc/slipway/node.json}"
readonly AGENT=http://localhost:51678/v1/tasks

parameters="$(python3 -c 'import json, sys
report = json.load(open(sys.argv[1], encoding="utf-8"))
idle = report["idle_report"]
print(report["region"], idle["namespace"], idle["metric"], idle["dimension"], report["cluster"])' "$PARAMETERS")"
read -r region namespace metric dimension cluster <<<"$parameters"

tasks="$(curl --silent --max-time 5 "$AGENT" || true)"
idle=1
if [[ "$tasks" =~ \"DesiredStatus\":[[:space:]]*\"RUNNING\" ]]; then
  idle=0
fi
aws cloudwatch put-metric-data --region "$region" --namespace "$namespace" --metric-name "$metric" \
  --dimensions "$dimension=$cluster" --unit Count --value "$idle"
