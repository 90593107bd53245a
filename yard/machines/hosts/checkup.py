"""Look, once a host has booted, what of it did not come up: its own systemd and cloud-init say so.

EC2 sees none of that but a system that stopped half-way; it is for people, and for the list of hosts. A host
without a program that every image has is no machine that EC2 would have started, and is called impaired, too.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from slipway.yard.machines import image_store
from slipway.yard.machines.hosts.host_store import Host, HostCommand
from slipway.yard.machines.hosts.planning import boot, own_files

NAME = "checkup"
SSHD = ("sshd",)
# systemctl(1), is-system-running: it waits for an administrator at a console that nobody has.
_STUCK = "maintenance"
_SCRIPT = """\
echo "state $(systemctl is-system-running)"
systemctl list-units --state=failed --plain --no-legend --no-pager | while read -r unit _; do
  echo "unit $unit"
done
if [ -e /run/cloud-init/result.json ]; then
  echo "result $(tr -d '\\n' </run/cloud-init/result.json)"
fi
"""
_ERROR = re.compile(r"^\('([\w-]+)', (.*)\)$")  # as cloud-init 22 writes a module's
_OF_CLOUD_INIT = "cloud-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    reasons: Sequence[str]  # why the host is not what it should be; none: all is well
    is_stuck: bool  # its system came up, but not as far as its network and its services
    lacks_programs: bool  # an image of ours has them, so that no instance of EC2's lacks them


def start(host: Host, tell: Callable[[Findings], None]) -> None:
    """Look in the host, and tell on another thread what was found."""
    (reading, output), errors = os.pipe(), os.open(os.devnull, os.O_WRONLY)
    assert host.link
    command = HostCommand(argv=("sh", "-c", _script(_programs(host))))
    host.link.command(NAME, command, (output, errors))
    os.close(output)
    os.close(errors)
    threading.Thread(target=_read, args=(host, reading, tell), name=f"checkup {host.number}").start()


def findings(said: str, dropped: Iterable[str], mend: str) -> Findings:
    """Read what the script said in the host."""
    told = [line.partition(" ")[::2] for line in said.splitlines()]
    state = next((rest for word, rest in told if word == "state"), "")
    errors = [each for word, rest in told if word == "result" for each in _errors(rest)]
    units = [rest for word, rest in told if word == "unit"]
    missing = [rest for word, rest in told if word == "missing"]
    is_stuck = state == _STUCK
    return Findings(
        is_stuck=is_stuck,
        lacks_programs=bool(missing),
        reasons=[
            *(["it stopped in systemd's emergency mode; see its console"] if is_stuck else []),
            *(f"{name} is not there; {mend}" for name in missing),
            *(f"{error}; what it said: /var/log/cloud-init-output.log of the host" for error in errors),
            *(
                f"{unit} failed; what it said: journalctl -u {unit}, on the host"
                for unit in units
                if not (errors and unit.startswith(_OF_CLOUD_INIT))
            ),
            *(f"{unit} was not started: systemd found it ordered in a circle" for unit in dropped),
        ],
    )


def _errors(result: str) -> list[str]:
    try:
        errors = json.loads(result)["v1"]["errors"]
    except (ValueError, KeyError, TypeError):
        return ["cloud-init left no result"]
    return [_ERROR.sub(r"\1 of cloud-init failed: \2", str(error)) for error in errors]


def _read(host: Host, descriptor: int, tell: Callable[[Findings], None]) -> None:
    with os.fdopen(descriptor, encoding="utf-8", errors="replace") as output:
        said = output.read()
    is_baked = image_store.root_of(host.instance.image) is not None
    mend = own_files.BAKE_AGAIN if is_baked else own_files.INSTALL
    if said:  # nothing: it went down again
        tell(findings(said, host.console.dropped_units(), mend))


def _programs(host: Host) -> list[tuple[str, ...]]:
    """List what jobs need although no unit starts it, each by its possible names, best known first."""
    return [SSHD, *boot.programs(boot.read_user_data(host.instance.user_data))]


def _script(programs: Iterable[Sequence[str]]) -> str:
    looks = (
        f"{{ {' || '.join(f'command -v {shlex.quote(name)}' for name in names)}; }} >/dev/null"
        f" || echo missing {shlex.quote(names[0])}\n"
        for names in programs
    )
    return _SCRIPT + "".join(looks)
