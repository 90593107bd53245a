"""What a compile job leaves, and what a run is held to: the same settings, and not one graph that failed.

neuron_parallel_compile runs a few steps whose numbers mean nothing, compiles the graphs that it saw, and ends
well even where some failed: only its line "Total failed compilations" says so, one a node.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from slipway.jobs.platforms.whole_files import write_whole
from slipway.jobs.words.errors import SlipwayError
from slipway.jobs.words.text import printable

STEPS = "3"  # as the article's compile job takes
# How long a run takes and what is measured of it; no graph depends on them.
_OF_NO_GRAPH = frozenset({"steps", "tokens", "profile"})
_TOTAL = re.compile(r"Total failed compilations:\s*(?P<failed>[0-9]{1,6})\b")
_UNSET = "the recipe's default"


class NotCompiled(SlipwayError):
    """Graphs failed to compile, so a run would compile them again at full price, or fail."""


class CompiledOtherwise(SlipwayError):
    """The compile job was of another model than the run."""

    exit_code = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiled:
    """Describes what was compiled."""

    job: str
    nodes: int
    ranks_per_node: int
    compiler: str
    settings: Mapping[str, str]


@dataclass(slots=True)
class CompileTally:
    """Counts what each node's compiler says of itself, in the job's output."""

    totals: list[int] = field(default_factory=list)

    def hear(self, line: str) -> None:
        if found := _TOTAL.search(line):
            self.totals.append(int(found["failed"]))

    def refuse_failures(self, nodes: int) -> None:
        """Refuse graphs that failed, and nodes that do not say how theirs ended."""
        if failed := sum(self.totals):
            raise NotCompiled(
                f"{failed} graphs failed to compile; allowed is 'Total failed compilations: 0' on all "
                f"{nodes} nodes",
                hint="the log says why each failed; mend that and submit the compile job again",
            )
        if len(self.totals) < nodes:
            raise NotCompiled(
                f"{len(self.totals)} of {nodes} nodes say 'Total failed compilations: 0', so graphs may be "
                "missing",
                hint="the log says how the others ended; submit the compile job again",
            )


def record_file(cache: str, model: str) -> Path:
    return Path(cache) / "compiled" / f"{model}.json"


def write_record(path: Path, compiled: Compiled) -> None:
    write_whole(path, json.dumps(asdict(compiled), sort_keys=True))


def read_record(path: Path) -> Compiled | None:
    """Return what was compiled last; None if nothing was, or nobody can read it."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        return Compiled(**record)
    except (OSError, ValueError, TypeError):
        return None


def refuse_otherwise(compiled: Compiled, wanted: Compiled) -> None:
    """Refuse a run that is not the one that was compiled, and name each difference."""
    differences = [
        f"{name} is {own}, compiled was {other}"
        for name, own, other in (
            ("nodes", wanted.nodes, compiled.nodes),
            ("ranks per node", wanted.ranks_per_node, compiled.ranks_per_node),
            ("the compiler", wanted.compiler, compiled.compiler),
        )
        if own != other
    ]
    names = sorted((set(wanted.settings) | set(compiled.settings)) - _OF_NO_GRAPH)
    differences += [
        f"{name} is {_shown(wanted.settings, name)}, compiled was {_shown(compiled.settings, name)}"
        for name in names
        if wanted.settings.get(name) != compiled.settings.get(name)
    ]
    if differences:
        raise CompiledOtherwise(
            f"this run is not what compile job {compiled.job} compiled: {'; '.join(differences)}",
            hint="compile it with the settings of the run: sbatch --nodes COUNT compile.slurm SCRIPT",
        )


def _shown(settings: Mapping[str, str], name: str) -> str:
    return printable(settings[name]) if name in settings else _UNSET
