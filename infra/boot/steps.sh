#!/usr/bin/env bash
# Functions that the other scripts here share. The scripts run at every boot. Every value comes from the JSON file that
# user data writes; none is part of a script.

readonly PARAMETERS="${SLIPWAY_PARAMETERS:-/etc/slipway/node.json}"
readonly STATE="${SLIPWAY_STATE:-/run/slipway-node}" # empty after each boot; jobs may not write here
readonly REASON="$STATE/reason"                      # why this node takes no jobs, in one word
# shellcheck disable=SC2034  # watch_join.sh and slipway-node read and write it
readonly JOINED="$STATE/joined"

# A unit's PATH lacks the virtual environment, which has an MPI node's AWS CLI: Ubuntu 24.04 has no package of it.
PATH="$PATH:${SLIPWAY_VENV:-/opt/slipway/venv}/bin"

# By default the AWS CLI asks the metadata service once and waits a second (its user guide, "Environment variables"). On a
# node whose ranks use every processor that is too short, and a report without credentials would be lost.
export AWS_METADATA_SERVICE_TIMEOUT=10 AWS_METADATA_SERVICE_NUM_ATTEMPTS=3

declare -A VALUES=() # the values of node.json by path, such as files.id

# Read node.json once for a script: $(parameter …) runs in a process, which would read it again for each value.
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
  wait "$!" # fail if the file cannot be read; it would look like one without values
}

# parameter files.id: print the value at that path, or nothing if there is none.
parameter() {
  ((${#VALUES[@]})) || read_parameters || return
  printf '%s\n' "${VALUES[$1]-}"
}

# during WORD COMMAND…: run the command; if it fails, the word says why this node takes no jobs.
during() {
  local reason="$1"
  shift
  mkdir -p "$STATE"
  echo "$reason" >"$REASON"
  "$@"
  rm "$REASON"
}

# If a unit fails, those that need it do not start, so the node takes no job; watch_join.sh reports the reason and ends
# the node.
refuse_jobs() {
  echo "slipway: the boot failed at line ${BASH_LINENO[0]} ($(cat "$REASON")); this node takes no jobs" >&2
}

minutes_since_boot() {
  local seconds
  read -r seconds _ <"${SLIPWAY_PROC:-/proc}/uptime"
  echo "$((${seconds%.*} / 60))"
}
