#!/usr/bin/env bash
# What the scripts beside this one share. They are part of the machine image, run at every boot, and install
# nothing. Every value comes from the JSON file that user data writes; none is part of a script.

readonly PARAMETERS="${SLIPWAY_PARAMETERS:-/etc/slipway/node.json}"
readonly STATE="${SLIPWAY_STATE:-/run/slipway-node}" # gone with each boot, and not the jobs' to write
readonly REASON="$STATE/reason"                      # why this node takes no jobs, in one word
# shellcheck disable=SC2034  # watch_join.sh and slipway-node read and write it
readonly JOINED="$STATE/joined"

# A unit's PATH has not the virtual environment, where the AWS CLI of an MPI node is: Ubuntu 24.04 packages none.
PATH="$PATH:${SLIPWAY_VENV:-/opt/slipway/venv}/bin"

# The AWS CLI asks the metadata service once, for a second (its user guide, "Environment variables"): on a node whose
# ranks have every processor that is too short, and a report would be lost for want of credentials.
export AWS_METADATA_SERVICE_TIMEOUT=10 AWS_METADATA_SERVICE_NUM_ATTEMPTS=3

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

# during WORD COMMAND…: where the command fails, the word says why this node takes no jobs.
during() {
  local reason="$1"
  shift
  mkdir -p "$STATE"
  echo "$reason" >"$REASON"
  "$@"
  rm "$REASON"
}

# Units that need this one do not start when it fails, so a node that is not whole takes no job; watch_join.sh
# says the reason and ends the node.
refuse_jobs() {
  echo "slipway: the boot failed at line ${BASH_LINENO[0]} ($(cat "$REASON")); this node takes no jobs" >&2
}

minutes_since_boot() {
  local seconds
  read -r seconds _ <"${SLIPWAY_PROC:-/proc}/uptime"
  echo "$((${seconds%.*} / 60))"
}
