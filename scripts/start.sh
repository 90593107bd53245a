# shellcheck shell=bash
# Functions that the other scripts source: set-up, and ending all that a script started.

# Before the rest of a script is read: it needs Bash 4, and a Mac has Bash 3.2.
if [ "$(uname -s)" != Linux ]; then
  echo "error: this script needs Linux, and this machine is $(uname -s); for AWS alone: pip install '.[infra]'" >&2
  exit 1
fi

# These scripts start hundreds of Python processes, each of which would compile its imports again without bytecode.
unset PYTHONDONTWRITEBYTECODE

# Install what the groups of scripts/set_up.py hold, and put the commands of .venv first on PATH.
set_up() {
  if ! command -v python3 >/dev/null; then
    echo "error: python3 is not on PATH; install Python 3.11 or newer" >&2
    exit 1
  fi
  python3 scripts/set_up.py "$@"
  export PATH="$PWD/.venv/bin:$PATH"
}

# A script starts its work as `work </dev/null &` and waits with `end_together`, so that all that it started ends with
# it. Ctrl-C, a closed terminal and kill are passed on at once; Bash alone would wait, or leave the work running.
set -m # a background job gets a process group of its own
export SLIPWAY_YARD_UNTIL_EXIT_OF=$$
trap 'end_work INT 130' INT
trap 'end_work TERM 143' TERM
trap 'end_work HUP 129' HUP

# Wait for the work, end what it left in the background, and return its code.
end_together() {
  set +m
  local code=0
  wait "$!" || code=$?
  kill -KILL -- "-$!" 2>/dev/null || true
  return "$code"
}

# Send the work SIGNAL and exit with CODE once it is gone. A second signal, or ten seconds, end it by force.
end_work() {
  local group=${!:-}
  [ -n "$group" ] || exit "$2"
  trap 'kill -KILL -- "-$group" 2>/dev/null || true' INT TERM HUP
  kill "-$1" -- "-$group" 2>/dev/null || exit "$2"
  for _ in {1..100}; do
    sleep 0.1
    kill -0 -- "-$group" 2>/dev/null || exit "$2"
  done
  kill -KILL -- "-$group" 2>/dev/null || true
  exit "$2"
}
