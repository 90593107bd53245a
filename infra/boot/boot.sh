#!/usr/bin/env bash
# slipway-boot.service, at every boot after the user data: sets one thread per core and huge pages if they are asked for,
# and mounts the shared files. The services that bring jobs (ecs, slipway-node, slurmd) need this unit and wait for it.
set -Eeuo pipefail # -E: a failure inside a function has to reach the trap
shopt -s inherit_errexit

# shellcheck source=infra/boot/steps.sh
. "$(dirname "${BASH_SOURCE[0]}")/steps.sh"

readonly SMT_CONTROL="${SLIPWAY_SMT_CONTROL:-/sys/devices/system/cpu/smt/control}"
readonly HUGE_PAGES="${SLIPWAY_PROC:-/proc}/sys/vm/nr_hugepages"
readonly MOUNT_ATTEMPTS=6 # DNS may not know a new mount target for a while

main() {
  trap refuse_jobs ERR
  during shared-files read_parameters # they say where the files are
  during processor-threads one_thread_per_core "$(parameter smt)"
  during huge-pages reserve_pages "$(parameter huge_pages)"
  during shared-files mount_files files
  during shared-files mount_files scratch_files
}

# EC2 has no CPU options for bare metal, so Linux switches the second threads off (kernel
# documentation, "CPU hotplug in the Kernel").
one_thread_per_core() {
  if [[ "$1" == "off" ]]; then
    echo off >"$SMT_CONTROL"
  fi
}

# They are not baked into the AMI: a small machine that boots it would have no memory left. A container has those of its
# host. Fewer than asked for are no failure: a job's launcher says how many there are.
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

# A job that is root in its container may write any file there: no other node takes one for root's program or for a device.
mount_once() {
  local files="$1" kind="$2" path="$3"
  case "$kind" in
    efs) mount -t efs -o tls,iam,nosuid,nodev "$(parameter "$files.id"):/" "$path" ;;
    fsx-lustre) mount -t lustre -o relatime,flock,nosuid,nodev "$(lustre_address "$files")" "$path" ;;
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
