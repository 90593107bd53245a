#!/usr/bin/env bash
# slipway-scratch.service: the local NVMe disks as one, striped, because nothing on them has to outlive the node.
# It holds jobs' /scratch, and what Docker keeps: an image of ten gigabytes is pulled to the root disk at 125 MB/s.
# Docker's part is a folder of its own, which no container sees. After a reboot the disks are as they were.
set -Eeuo pipefail # -E: a failure inside a function has to reach the trap
shopt -s inherit_errexit

# shellcheck source=infra/boot/steps.sh
. "$(dirname "${BASH_SOURCE[0]}")/steps.sh"

readonly ROOT="${SLIPWAY_ROOT:-}"
readonly SCRATCH="$ROOT/scratch"
readonly LOCAL="$ROOT/mnt/slipway-local"
readonly DOCKER=("$ROOT/var/lib/docker" "$ROOT/var/lib/containerd")
readonly LABEL=scratch # at most 12 characters on XFS
readonly DLAMI="$ROOT/opt/dlami/nvme" # where AWS's Deep Learning AMIs put them, as one (dlami-nvme.service)

main() {
  trap refuse_jobs ERR
  during local-disks prepare_scratch
}

prepare_scratch() {
  local -a disks
  local found device
  mkdir -p "$SCRATCH"
  chmod 1777 "$SCRATCH"
  if mountpoint --quiet "$DLAMI"; then
    if ! mountpoint --quiet "$LOCAL"; then
      mkdir -p "$LOCAL"
      mount --bind "$DLAMI" "$LOCAL"
      share_local
    fi
    return 0
  fi
  found="$(local_disks)"
  mapfile -t disks < <(printf '%s' "$found")
  if ((${#disks[@]} == 0)) || mountpoint --quiet "$LOCAL"; then
    return 0
  fi
  mkdir -p "$LOCAL"
  device="$(volume "${disks[@]}")"
  mount -o noatime "$device" "$LOCAL"
  share_local
}

# Jobs and Docker have each their folder of the local disks.
share_local() {
  local folder
  chmod 0711 "$LOCAL"
  install -d -m 1777 "$LOCAL/scratch"
  mount --bind "$LOCAL/scratch" "$SCRATCH"
  for folder in "${DOCKER[@]}"; do
    install -d -m 0711 "$folder" "$LOCAL/${folder##*/}"
    mount --bind "$LOCAL/${folder##*/}" "$folder"
  done
  restart_active containerd.service docker.service
}

# On an AMI that was not baked, they may have begun before this script was there, and would go on with the folders that
# are hidden now.
restart_active() {
  local unit
  for unit in "$@"; do
    if systemctl is-active --quiet "$unit"; then
      systemctl restart --no-block "$unit"
    fi
  done
}

# An instance of EC2 is no container: in one, the disks that lsblk tells of are another machine's.
local_disks() {
  if systemd-detect-virt --quiet --container; then
    return 0
  fi
  udevadm settle --timeout=60 >&2
  lsblk --nodeps --noheadings --output PATH,MODEL | awk '/EC2 NVMe Instance Storage/ { print $1 }'
}

# The device with the file system: the one of an earlier boot, or a new one.
volume() {
  local device
  if device="$(blkid --label "$LABEL")"; then
    echo "$device"
    return 0
  fi
  device="$1"
  if (($# > 1)) && ! command -v mdadm >/dev/null; then
    echo "slipway: without mdadm only the first of $# local disks is used" >&2
  elif (($# > 1)); then
    device=/dev/md/scratch
    mdadm --create "$device" --run --level=0 --raid-devices="$#" "$@" >&2
  fi
  mkfs.xfs -f -q -L "$LABEL" "$device" >&2
  echo "$device"
}

main
