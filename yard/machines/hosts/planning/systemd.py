"""Stand-ins for systemctl, systemd-run and nft on a host whose boot is imitated; user data calls them.

To add a command of systemctl: a branch of SYSTEMCTL. They come first on the host's PATH.
"""

from __future__ import annotations

# init skips a unit that has a file here (yard/machines/hosts/inside/init.py).
MASKED = "/run/yard/masked"

SYSTEMCTL = f"""\
#!/bin/sh
# The yard's: no systemd runs here.
word="$1"
shift
case "$word" in
  mask)
    mkdir -p {MASKED}
    for each in "$@"; do
      case "$each" in
        -*) ;;
        *) : >"{MASKED}/${{each%.service}}.service" ;;
      esac
    done
    ;;
  daemon-reload) ;;
  *)
    echo "systemctl: the yard runs no systemd, and knows mask and daemon-reload, not '$word'" >&2
    exit 1
    ;;
esac
"""

SYSTEMD_RUN = """\
#!/usr/bin/env python3
# The yard's: a timer of whole minutes, or the command at once. No systemd runs here.
import os, subprocess, sys, time

words = sys.argv[1:]
minutes = None
while words and words[0].startswith("--"):
    name, _, value = words.pop(0).partition("=")
    if name == "--on-unit-active":
        minutes = int(value.removesuffix("min"))
if os.fork():
    sys.exit()
os.setsid()
while minutes:
    time.sleep(60 * minutes)
    subprocess.run(words, check=False)
os.execvp(words[0], words)
"""

NFT = """\
#!/usr/bin/env python3
# The yard's: `nft -f -` on tables of the host's own; its security groups stand in the same network.
import socket, sys

if sys.argv[1:] != ["-f", "-"]:
    sys.exit("nft: the yard takes `nft -f -` alone")
door = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
door.connect("/run/yard/nft.sock")
door.sendall(sys.stdin.buffer.read())
door.shutdown(socket.SHUT_WR)
said = door.makefile().read()
sys.exit(said or 0)
"""

# In memory, so every host can write it, whoever owns its other programs.
FOLDER = "/run/yard/bin"
FILES = {
    f"{FOLDER}/systemctl": {"text": SYSTEMCTL, "mode": 0o755},
    f"{FOLDER}/nft": {"text": NFT, "mode": 0o755},
    f"{FOLDER}/systemd-run": {"text": SYSTEMD_RUN, "mode": 0o755},
}
