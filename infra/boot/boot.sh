#!/usr/bin/env bash
# slipway-boot.service, at every boot after the user data: one thread a core and huge pages where they are asked,
# and the shared files. What brings a node its jobs, ecs, slipway-node or slurmd, needs this unit and waits for it.
set -Eeuo pipefail # -E: a failure inside a function has to reach the trap
shopt -s inherit_errexit

# shellcheck source=infra/boot/steps.sh
. "$(dirname "${BASH_SOURCE[0]}")/steps.sh"

readonly SMT_CONTROL="${SLIPWAY_SMT_CONTROL:-/sys/devices/system/cpu/smt/control}"
readonly HUGE_PAGES="${SLIPWAY_PROC:-/proc}/sys/vm/nr_hugepages"
readonly MOUNT_ATTEMPTS=6 # a name of a mount target may be unknown for a while after it was made

main() {
  trap refuse_jobs ERR
  during shared-files read_parameters # which says where they are
  during processor-threads one_thread_per_core "$(parameter smt)"
  during huge-pages reserve_pages "$(parameter huge_pages)"
  during shared-files mount_files files
  during shared-files mount_files scratch_files
}

# Bare metal has no CPU options that EC2 could set, so Linux takes the second threads away (kernel
# documentation, "CPU hotplug in the Kernel").
one_thread_per_core() {
  if [[ "$1" == "off" ]]; then
    echo off >"$SMT_CONTROL"
  fi
}

# Not baked into the AMI: on a small machine that boots it, they would leave no memory for anything else. A container's
# are another machine's. Fewer than asked are no failure: the launcher of a job says how many there are.
reserve_pages() {
  if [[ -n "$1" ]] && ! systemd-detect-virt --quiet --container; then
    echo "$1" >"$HUGE_PAGES"
  fi
}

mount_files() {
  local files="$1" kind path attempt
  kind="$(parameter "$files.kind")"
  path="$(parameter "$files.path")"
  if [[ -z "$kind" ]] || mountpoint --quiet "$path"; then
    return 0
  fi
  mkdir -p "$path"
  for ((attempt = 1; attempt < MOUNT_ATTEMPTS; attempt++)); do
    if mount_once "$files" "$kind" "$path"; then
      return 0
    fi
    echo "slipway: attempt $attempt of $MOUNT_ATTEMPTS to mount $path failed" >&2
    sleep 10
  done
  mount_once "$files" "$kind" "$path"
}

mount_once() {
  local files="$1" kind="$2" path="$3"
  case "$kind" in
    efs) mount -t efs -o tls,iam "$(parameter "$files.id"):/" "$path" ;;
    fsx-lustre) mount -t lustre -o relatime,flock "$(lustre_address "$files")" "$path" ;;
    *)
      echo "slipway: $files.kind is '$kind'; allowed are efs and fsx-lustre" >&2
      return 1
      ;;
  esac
}

lustre_address() {
  echo "$(parameter "$1.id").fsx.$(parameter region).amazonaws.com@tcp:/$(parameter "$1.mount_name")"
}

main
