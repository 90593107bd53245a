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

declare -A VALUES=() # what node.json holds, by path: files.id

# Read node.json, once for a script: $(parameter …) is a process of its own, which would read it again for each value.
read_parameters() {
  local path value
  while IFS= read -r -d '' path && IFS= read -r -d '' value; do
    VALUES[$path]="$value"
  done < <(
    python3 -S - "$PARAMETERS" <<'PYTHON'
import json
import sys


def leaves(value, *path):
    if isinstance(value, dict):
        for key in value:
            yield from leaves(value[key], *path, key)
    elif value is not None:
        yield ".".join(path), value


with open(sys.argv[1], encoding="utf-8") as file:
    told = json.load(file)
for path, value in leaves(told):
    print(path, value, sep="\0", end="\0")
PYTHON
  )
  wait "$!" # or a file that cannot be read would pass for one without values
}

# parameter files.id: the value at that path, or nothing where there is none.
parameter() {
  ((${#VALUES[@]})) || read_parameters || return
  printf '%s\n' "${VALUES[$1]-}"
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
