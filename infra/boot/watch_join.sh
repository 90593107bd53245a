#!/usr/bin/env bash
# slipway-watchdog.timer: ends a node that does not join its cluster. Nothing else does: AWS Batch keeps all nodes of a
# job that waits for one of them, calls the reason UNDETERMINED, and sets no time limit for it. A node that has joined
# or has work is left alone until its next boot.
set -euo pipefail

# shellcheck source=infra/boot/steps.sh
. "$(dirname "${BASH_SOURCE[0]}")/steps.sh"
# shellcheck source=infra/boot/at_work.sh
. "$(dirname "${BASH_SOURCE[0]}")/at_work.sh"

readonly AGENT=http://localhost:51678/v1/metadata
readonly INSTANCE="${SLIPWAY_INSTANCE_ID:-/var/lib/cloud/data/instance-id}" # cloud-init writes it

main() {
  local minutes limit reason
  if [[ -e "$JOINED" ]]; then
    return 0
  fi
  read_parameters
  if has_joined || is_at_work; then
    mkdir -p "$STATE"
    touch "$JOINED"
    return 0
  fi
  minutes="$(minutes_since_boot)"
  limit="$(parameter join.within_minutes)"
  reason="$(cat "$REASON" 2>/dev/null || parameter join.by)"
  echo "slipway: this node has not joined $(parameter cluster) in $minutes minutes, for want of $reason;" \
    "it ends itself after $limit"
  report "$reason" || echo 'slipway: CloudWatch was not told' >&2
  if ((minutes >= limit)); then
    end
  fi
}

# ECS's agent returns an ARN once the cluster knows it. PCS's agent starts Slurm's services once the instance is
# registered; they are active once they have their configuration from the controller: slurmd on workers, sackd on login
# nodes. On MPI nodes slipway-node writes $JOINED itself.
has_joined() {
  case "$(parameter join.by)" in
    ecs-agent) [[ "$(curl --silent --max-time 5 "$AGENT" || true)" =~ \"ContainerInstanceArn\":[[:space:]]*\"arn: ]] ;;
    pcs-agent) has_active_unit slurmd || has_active_unit sackd ;;
    *) return 1 ;;
  esac
}

# True if a unit that runs this program is active. It is found by its process, because AWS's installer names units after
# the version of Slurm, such as slurmd-25.05.service (AWS PCS user guide, "Software installers to build custom AMIs").
has_active_unit() {
  local process
  while IFS= read -r process; do
    if [[ "$(cat "${process%comm}cgroup" 2>/dev/null || true)" =~ /([^/]*\.service) ]] &&
      systemctl is-active --quiet "${BASH_REMATCH[1]}"; then
      return 0
    fi
  done < <(grep --no-messages --files-with-matches --line-regexp "$1" "$PROC"/[0-9]*/comm)
  return 1
}

# Report once for the alarm, and once with the reason for people and `slipway explain`.
report() {
  local name cluster
  name="$(parameter join.metric)"
  cluster="{\"Name\": \"$(parameter idle_report.dimension)\", \"Value\": \"$(parameter cluster)\"}"
  aws cloudwatch put-metric-data --region "$(parameter region)" \
    --namespace "$(parameter idle_report.namespace)" --metric-data "[
      {\"MetricName\": \"$name\", \"Unit\": \"Count\", \"Value\": 1, \"Dimensions\": [$cluster]},
      {\"MetricName\": \"$name\", \"Unit\": \"Count\", \"Value\": 1,
       \"Dimensions\": [$cluster, {\"Name\": \"Reason\", \"Value\": \"$1\"}]}]"
}

# A known group becomes smaller by this node: otherwise it would start one that fails in the same way, again and again.
# AWS Batch and PCS do not show their groups, so there only the node ends: Batch's job has to be cancelled, and PCS
# starts another node for a job that waits.
end() {
  local group
  group="$(parameter join.group)"
  echo "slipway: this node ends itself"
  if [[ -n "$group" ]] && aws autoscaling terminate-instance-in-auto-scaling-group \
    --region "$(parameter region)" --instance-id "$(<"$INSTANCE")" --should-decrement-desired-capacity; then
    return 0
  fi
  systemctl poweroff # the launch template makes that a termination
}

main
