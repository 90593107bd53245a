#!/usr/bin/env bash
# slipway-scratch.service: stripes the local NVMe disks into one, because nothing on them has to outlive the node.
# It holds jobs' /scratch and Docker's files: the root disk takes an image of ten gigabytes at only 125 MB/s.
# Docker has a folder of its own, which no container sees. The disks keep their files over a reboot.
set -Eeuo pipefail # -E: a failure inside a function has to reach the trap
shopt -s inherit_errexit

# shellcheck source=infra/boot/steps.sh
. "$(dirname "${BASH_SOURCE[0]}")/steps.sh"

readonly ROOT="${SLIPWAY_ROOT:-}"
readonly SCRATCH="$ROOT/scratch"
readonly LOCAL="$ROOT/mnt/slipway-local"
readonly DOCKER=("$ROOT/var/lib/docker" "$ROOT/var/lib/containerd")
readonly LABEL=scratch # at most 12 characters on XFS
readonly DLAMI="$ROOT/opt/dlami/nvme" # where dlami-nvme.service of AWS's Deep Learning AMIs mounts them as one

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

# Jobs and Docker each have a folder on the local disks.
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

# On AWS's own AMIs they may have started before this script was there, and would go on using the folders that it now
# hides.
restart_active() {
  local unit
  for unit in "$@"; do
    if systemctl is-active --quiet "$unit"; then
      systemctl restart --no-block "$unit"
    fi
  done
}

# In a container lsblk lists the disks of another machine, so only an EC2 instance is asked.
local_disks() {
  if systemd-detect-virt --quiet --container; then
    return 0
  fi
  udevadm settle --timeout=60 >&2
  lsblk --nodeps --noheadings --output PATH,MODEL | awk '/EC2 NVMe Instance Storage/ { print $1 }'
}

# Print the device with the file system: that of an earlier boot, or a new one.
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
