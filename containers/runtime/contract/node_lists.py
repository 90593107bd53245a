"""The lists that launchers describe nodes with: Slurm's host lists and task counts, SageMaker's JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

from slipway.containers.runtime import values
from slipway.containers.runtime.named_files import UnusableFile, read_text
from slipway.containers.runtime.values import InvalidContract, shown

_RESOURCES = "opt/ml/input/config/resourceconfig.json"
_MOST_HOSTS = 10_000
_MOST_BYTES = 16 << 20
_BRACKETS = re.compile(r"\[([^\[\]]+)\]")
_TASKS = re.compile(r"(?P<tasks>[0-9]{1,6})(\(x(?P<times>[0-9]{1,6})\))?", re.ASCII)


def main_host_of_slurm(environment: Mapping[str, str]) -> str:
    """Return the first host: of `node[001-004,7],other` it is node001."""
    name = "SLURM_JOB_NODELIST"
    text = environment.get(name, "")
    if "[" in text.split(",", 1)[0]:
        first = _BRACKETS.sub(lambda found: re.split("[,-]", found[1])[0], text[: _end_of_first(text)])
    else:
        first = text.split(",", 1)[0]
    return values.address({name: first}, name)


def tasks_of_slurm_node(environment: Mapping[str, str], node: int) -> int:
    """Return one node's number of tasks: of `2(x2),1` the third is 1."""
    text = environment.get("SLURM_TASKS_PER_NODE", "")
    remaining = node
    for part in text.split(","):
        found = _TASKS.fullmatch(part)
        if found is None:
            break
        times = int(found["times"] or 1)
        if remaining < times:
            return int(found["tasks"])
        remaining -= times
    raise InvalidContract(
        f"SLURM_TASKS_PER_NODE is {shown(text or None)}, and must count the tasks of node {node}"
    )


def hosts_of_sagemaker(environment: Mapping[str, str], root: Path) -> tuple[list[str], str]:
    """Return all hosts, algo-2 before algo-10, and the name of this one."""
    if "SM_CURRENT_HOST" in environment:
        source, current = "SM_HOSTS", environment["SM_CURRENT_HOST"]
        hosts = _json(environment.get("SM_HOSTS", ""), source)
    else:
        source = f"/{_RESOURCES}"
        record = _json(_read(root / _RESOURCES), source)
        fields = record if isinstance(record, dict) else {}
        hosts, current = fields.get("hosts"), str(fields.get("current_host"))
    if not isinstance(hosts, list) or not 1 <= len(hosts) <= _MOST_HOSTS or current not in hosts:
        raise InvalidContract(
            f"{source} is {shown(str(hosts))}, and must list the hosts, {shown(str(current))} among them"
        )
    checked = [values.address({source: str(host)}, source) for host in hosts]
    if len(set(checked)) != len(checked):
        raise InvalidContract(f"{source} is {shown(str(hosts))}, and names a host twice")
    return sorted(checked, key=_natural), str(current)


def _end_of_first(text: str) -> int:
    """Return the index of the first comma outside brackets."""
    inside = False
    for position, character in enumerate(text):
        inside = character == "[" or (inside and character != "]")
        if character == "," and not inside:
            return position
    return len(text)


def _natural(host: str) -> list[tuple[int, int, str]]:
    parts = re.split(r"([0-9]+)", host)
    return [(1, int(part), "") if part.isdigit() else (0, 0, part) for part in parts]


def _read(path: Path) -> str:
    try:
        return read_text(path, _MOST_BYTES)
    except UnusableFile as error:
        raise InvalidContract(
            error.message, hint="SageMaker writes it before it starts a container"
        ) from None


def _json(text: str, source: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise InvalidContract(f"{source} is {shown(text)}, and must be JSON") from None
