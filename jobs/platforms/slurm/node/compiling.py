"""The graphs of an attempt: the cache that ranks load them from, and whether the run is what was compiled."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from slipway.containers.runtime.linux import Machine
from slipway.jobs.platforms.slurm.node.launch import (
    Compiled,
    CompileTally,
    LaunchAttempt,
    compiles_graphs,
    read_record,
    record_file,
    refuse_otherwise,
    thrown_away,
    write_record,
)
from slipway.jobs.platforms.slurm.node.neuron_environment import (
    NeuronNode,
    cache_folder,
    cache_root,
    neuron_variables,
)
from slipway.jobs.platforms.slurm.node.users import open_folders
from slipway.jobs.words.slurm import COMPILE


@dataclass(frozen=True, slots=True, kw_only=True)
class Graphs:
    attempt: LaunchAttempt
    tally: CompileTally

    @property
    def cache(self) -> str:
        root = self.attempt.where.below(cache_root(self.attempt.facts))
        return cache_folder(str(root), self.attempt.compiler)

    @property
    def record(self) -> Path:
        return record_file(self.cache, self.attempt.words.model)

    def variables(self) -> Mapping[str, str]:
        """Return Neuron's variables; none where no graph is compiled."""
        if not compiles_graphs(self.attempt):
            return {}
        node = NeuronNode(
            compiler=self.attempt.compiler,
            kernel=os.uname().release,
            has_efa=bool(self.attempt.facts.efa_interfaces),
            main_address=Machine().own_address(),
            cache=self.cache,
        )
        return {each.name: each.value for each in neuron_variables(node)}

    def begin(self, say: Callable[[str], None]) -> None:
        """Forget what a compile job is about to replace, or hold a run to what was compiled."""
        cache = Path(self.cache)
        open_folders((cache.parent, cache, self.record.parent))
        if self.attempt.words.phase == COMPILE:
            self.record.unlink(missing_ok=True)
            return
        compiled = read_record(self.record)
        if compiled is not None:
            refuse_otherwise(compiled, self._own())
        elif compiles_graphs(self.attempt):
            say(
                f"[run] warning: nothing was compiled for {self.attempt.words.model}; its graphs are "
                "compiled now, one by one, while all nodes are paid for: submit compile.slurm first"
            )

    def end(self, code: int) -> None:
        """Throw away what a compile job wrote, and write down what it compiled if all of it did."""
        if self.attempt.words.phase != COMPILE:
            return
        shutil.rmtree(thrown_away(self.attempt), ignore_errors=True)
        if code:
            return
        if compiles_graphs(self.attempt):
            self.tally.refuse_failures(self.attempt.allocation.nodes)
        write_record(self.record, self._own())

    def _own(self) -> Compiled:
        return Compiled(
            job=self.attempt.allocation.job,
            nodes=self.attempt.allocation.nodes,
            ranks_per_node=self.attempt.ranks_per_node,
            compiler=self.attempt.compiler,
            settings=dict(self.attempt.words.settings),
        )
