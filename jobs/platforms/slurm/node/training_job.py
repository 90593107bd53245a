"""Runs one attempt of a job, in its batch script on the first node, and decides the exit code for Slurm.

Slurm has no limit of restarts, and requeues only what its nodes lost. So the script counts the attempts that
began, and returns the job to the queue itself if another attempt resumes it.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from slipway.containers.runtime.errors import Refusal
from slipway.containers.runtime.linux import Machine
from slipway.jobs.platforms.on_nodes import rank_python, scratch
from slipway.jobs.platforms.slurm.node.allocation import Allocation, read_allocation
from slipway.jobs.platforms.slurm.node.attempts import AttemptNote, begin_note, write_note
from slipway.jobs.platforms.slurm.node.job_log import JobLog
from slipway.jobs.platforms.slurm.node.launch import (
    STEPS,
    Compiled,
    CompileTally,
    LaunchAttempt,
    container_of,
    launch_command,
    node_environment,
    read_record,
    record_file,
    refuse_otherwise,
    step_options,
    thrown_away,
    write_record,
)
from slipway.jobs.platforms.slurm.node.neuron_environment import (
    NO_COMPILER,
    NeuronNode,
    cache_folder,
    cache_root,
    installed_compiler,
    neuron_variables,
)
from slipway.jobs.platforms.slurm.node.programs import requeue
from slipway.jobs.platforms.slurm.node.setting import SlurmNodeFacts, SlurmNodePaths
from slipway.jobs.platforms.slurm.node.step import Heard, SrunStep, StepEnd, run_step, srun_words
from slipway.jobs.platforms.slurm.node.train import TrainWords
from slipway.jobs.platforms.slurm.node.users import (
    ATTEMPTS_FOLDER,
    folders_of_all,
    open_folders,
    raise_limits,
)
from slipway.jobs.platforms.slurm.request import refuse_split
from slipway.jobs.words.errors import SlipwayError
from slipway.jobs.words.recipes import UnknownRecipe, find_recipe, refuse_settings
from slipway.jobs.words.run import RETRY_EXIT_CODE
from slipway.jobs.words.slurm import COMPILE

_SCRATCH = "slipway-train-"  # epilog.sh removes what is left of it


def train(where: SlurmNodePaths, facts: SlurmNodeFacts, words: TrainWords) -> int:
    """Run one attempt and return the exit code for Slurm, unless the job goes back to the queue."""
    heard = Heard()
    heard.listen()
    raise_limits()
    open_folders(folders_of_all(where, facts))
    allocation = read_allocation(os.environ)
    note = _begin(words, allocation)
    log = JobLog(facts, f"{words.model}/{note.job}-{note.phase}-{note.number}")
    # A container has no other folders.
    shared = where.below(f"{facts.shared}/{ATTEMPTS_FOLDER}") if container_of(where, facts, words) else None
    try:
        if note.number > words.attempts:  # Slurm itself requeues what its nodes lost
            raise AttemptsOver(f"attempt {note.number} is one more than the {words.attempts} of this job")
        with scratch(_SCRATCH, shared) as folder:
            module, has_steps = _recipe(words)
            attempt = LaunchAttempt(
                where=where,
                facts=facts,
                words=words,
                allocation=allocation,
                number=note.number,
                python=rank_python(where.root),
                module=module,
                has_steps=has_steps,
                scratch=folder,
            )
            end = _run(attempt, log, heard)
    except SlipwayError as error:
        log.say(f"[run] error: {error.message}" + (f"; {error.hint}" if error.hint else ""))
        end = StepEnd(code=error.exit_code, was_warned=False, was_ended=False)
    code = RETRY_EXIT_CODE if end.was_warned and end.code else end.code
    resumes = code == RETRY_EXIT_CODE and not end.was_ended and note.number < words.attempts
    _write(words, replace(note, ended=int(time.time()), exit_code=code, resumes=resumes), log.say)
    which = f"attempt {note.number} of {words.attempts}"
    if resumes:
        why = "its time was over" if end.was_warned else "its machines failed it"
        log.say(f"[run] {which} ended: {why}; the job goes back to the queue, and the next attempt resumes")
    else:
        log.say(f"[run] {'error: ' if code else ''}{words.model} ended with exit code {code}, {which}")
    log.close()
    if resumes:
        requeue(allocation.job, lambda line: print(line, file=sys.stderr, flush=True))
    return code


def _run(attempt: LaunchAttempt, log: JobLog, heard: Heard) -> StepEnd:
    """Find everything that is wrong with the job before a rank starts on any node, and run the ranks."""
    nodes = attempt.allocation.nodes
    refuse_split(attempt.words.settings, attempt.ranks_per_node * nodes, f"{nodes} nodes")
    compiler = installed_compiler(attempt.python) if attempt.compiles_graphs else NO_COMPILER
    graphs = Graphs(attempt=attempt, compiler=compiler)
    graphs.begin(log.say)
    log.say(
        f"[run] {nodes} hosts, {attempt.ranks_per_node} ranks each: {', '.join(attempt.allocation.hosts)}"
    )
    log.say(f"[run] ranks run {_ground(attempt)}")

    def hear(line: str) -> None:
        graphs.tally.hear(line)
        log.say(line)

    step = SrunStep(
        words=srun_words(nodes, step_options(attempt), launch_command(attempt)),
        environment=node_environment(attempt, graphs.variables()),
        job=attempt.allocation.job,
        exit_file=attempt.exit_file,
    )
    end = run_step(step, hear, heard)
    graphs.end(end.code)
    return end


class AttemptsOver(SlipwayError):
    """The job has used all of its attempts."""

    exit_code = RETRY_EXIT_CODE


def _recipe(words: TrainWords) -> tuple[str, bool]:
    """Return the module to run, and whether it can be told to end after a few steps."""
    try:
        recipe = find_recipe(words.recipe)
    except UnknownRecipe:
        if words.module is None:
            raise
        return words.module, words.phase == COMPILE  # of a newer Slipway than this image has
    if words.module is None:
        refuse_settings(recipe, words.settings)
    given = {**words.settings, "steps": STEPS}
    try:
        recipe.config.decode_arguments([f"{name}={value}" for name, value in given.items()])
    except Refusal:
        return words.module or recipe.module, False
    return words.module or recipe.module, True


def _begin(words: TrainWords, allocation: Allocation) -> AttemptNote:
    note = AttemptNote(
        job=allocation.job,
        phase=words.phase,
        number=allocation.restarts + 1,
        restarts=allocation.restarts,
        nodes=allocation.nodes,
        hosts=",".join(allocation.hosts),
        started=int(time.time()),
        ended=None,
        exit_code=None,
        resumes=False,
    )
    return note if words.folder is None else begin_note(Path(words.folder), note)


def _write(words: TrainWords, note: AttemptNote, say: Callable[[str], None]) -> None:
    if words.folder is None:
        return
    try:
        write_note(Path(words.folder), note)
    except OSError as error:  # a full disk keeps no job from the queue
        say(f"[run] warning: how this attempt ended is not recorded: {error.strerror}")


def _ground(attempt: LaunchAttempt) -> str:
    if attempt.container:
        return f"in {attempt.container}"
    image = attempt.words.image or attempt.facts.container
    return f"on the node's own files: nothing here runs {image}" if image else "on the node's own files"


# The graphs of an attempt: the cache from which ranks load them, and whether the run matches what was
# compiled.
@dataclass(frozen=True, slots=True, kw_only=True)
class Graphs:
    attempt: LaunchAttempt
    compiler: str
    tally: CompileTally = field(default_factory=CompileTally)

    @property
    def cache(self) -> str:
        root = self.attempt.where.below(cache_root(self.attempt.facts))
        return cache_folder(str(root), self.compiler)

    @property
    def record(self) -> Path:
        return record_file(self.cache, self.attempt.words.model)

    def variables(self) -> Mapping[str, str]:
        """Return Neuron's variables; none if no graph is compiled."""
        if not self.attempt.compiles_graphs:
            return {}
        node = NeuronNode(
            compiler=self.compiler,
            kernel=os.uname().release,
            has_efa=bool(self.attempt.facts.efa_interfaces),
            main_address=Machine().own_address(),
            cache=self.cache,
        )
        return {name: value for name, (value, _) in neuron_variables(node).items()}

    def begin(self, say: Callable[[str], None]) -> None:
        """Remove the record that a compile job will replace, or check that a run matches what it compiled."""
        cache = Path(self.cache)
        open_folders((cache.parent, cache, self.record.parent))
        if self.attempt.words.phase == COMPILE:
            self.record.unlink(missing_ok=True)
            return
        compiled = read_record(self.record)
        if compiled is not None:
            refuse_otherwise(compiled, self._own())
        elif self.attempt.compiles_graphs:
            say(
                f"[run] warning: nothing was compiled for {self.attempt.words.model}; its graphs are "
                "compiled now, one by one, while all nodes are paid for: submit compile.slurm first"
            )

    def end(self, code: int) -> None:
        """Delete what a compile job wrote, and record what it compiled if all of it succeeded."""
        if self.attempt.words.phase != COMPILE:
            return
        shutil.rmtree(thrown_away(self.attempt), ignore_errors=True)
        if code:
            return
        if self.attempt.compiles_graphs:
            self.tally.refuse_failures(self.attempt.allocation.nodes)
        write_record(self.record, self._own())

    def _own(self) -> Compiled:
        return Compiled(
            job=self.attempt.allocation.job,
            nodes=self.attempt.allocation.nodes,
            ranks_per_node=self.attempt.ranks_per_node,
            compiler=self.compiler,
            settings=dict(self.attempt.words.settings),
        )
