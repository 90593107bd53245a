#!/usr/bin/env bash
# What every kind of node does at its first boot; boot_node.sh and boot_mpi_node.sh choose from it. It
# installs nothing: what it calls is baked into the machine image. Every value comes from the JSON file; none
# is part of this text.

readonly PARAMETERS="${SLIPWAY_PARAMETERS:-/etc/slipway/node.json}"
readonly REPORT=/usr/local/sbin/slipway-report-idle

# parameter files.id: the value at that path, or nothing where there is none.
parameter() {
  python3 - "$PARAMETERS" "$1" <<'PYTHON'
import json
import sys

with open(sys.argv[1], encoding="utf-8") as file:
    value = json.load(file)
for key in sys.argv[2].split("."):
    value = value.get(key) if isinstance(value, dict) else None
print("" if value is None else value)
PYTHON
}

# refuse_jobs UNIT: a node that is not whole must not take a job, so what would bring it jobs is masked. That
# works for ecs, whose unit lies below /lib; systemd refuses to mask slipway-node, whose unit lies in
# /etc/systemd/system, so an MPI node may take jobs all the same. The node is not shut down here, or one broken
# node would be started after another.
refuse_jobs() {
  echo "slipway: the boot failed at line ${BASH_LINENO[0]}; this node takes no jobs" >&2
  systemctl mask --now "$1"
}

start_idle_report() {
  local minutes
  minutes="$(parameter idle_report.every_minutes)"
  systemd-run --unit=slipway-report-idle \
    --on-active="${minutes}min" --on-unit-active="${minutes}min" "$REPORT"
}

# All local NVMe disks as one: striped, because nothing on them has to outlive the node.
prepare_scratch() {
  local path="$1" device
  local -a disks
  mkdir -p "$path"
  mapfile -t disks < <(
    lsblk --nodeps --noheadings --output PATH,MODEL | awk '/EC2 NVMe Instance Storage/ { print $1 }'
  )
  case "${#disks[@]}" in
    0) return 0 ;;
    1) device="${disks[0]}" ;;
    *)
      device=/dev/md/scratch
      mdadm --create "$device" --run --level=0 --raid-devices="${#disks[@]}" "${disks[@]}"
      ;;
  esac
  mkfs.xfs -f -q "$device"
  mount -o noatime "$device" "$path"
  chmod 1777 "$path"
}

mount_shared_files() {
  local kind="$1" path="$2"
  if [[ -z "$kind" ]] || mountpoint --quiet "$path"; then
    return 0
  fi
  mkdir -p "$path"
  case "$kind" in
    efs) mount -t efs -o tls,iam "$(parameter files.id):/" "$path" ;;
    fsx-lustre) mount -t lustre -o relatime,flock "$(lustre_address)" "$path" ;;
    *)
      echo "slipway: files.kind is '$kind'; allowed are efs and fsx-lustre" >&2
      return 1
      ;;
  esac
}

lustre_address() {
  echo "$(parameter files.id).fsx.$(parameter region).amazonaws.com@tcp:/$(parameter files.mount_name)"
}
