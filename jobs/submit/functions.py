"""Runs a function of the user's own as a job: `slipway.run(train, 0.1, on="dl1", nodes=2).result()`.

Its module's folder is packed, sent and started as `slipway run` does. Arguments and results travel as files
of containers/tasks/values.py, so neither side unpickles anything.
"""

from __future__ import annotations

import inspect
import os
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Generic, TypeVar, cast

from slipway.containers.runtime.contract import variables
from slipway.containers.runtime.errors import Refusal
from slipway.containers.tasks.call import call_words
from slipway.containers.tasks.description import CodeReference
from slipway.containers.tasks.values import (
    MOST_BYTES,
    SUFFIX,
    decode_value,
    encode_value,
    refuse_value,
    result_key,
)
from slipway.jobs.cloud import aws
from slipway.jobs.cloud.deployed import find_target_by_name
from slipway.jobs.cloud.objects import find_object
from slipway.jobs.code.command_job import RECIPE, OwnCommand, command_settings, job_name, refuse_requirements
from slipway.jobs.code.folder import DEFAULT_LIMIT_MB, words_of_skipped
from slipway.jobs.code.packing import PackedProject, pack_project, project_url, upload_once, upload_project
from slipway.jobs.code.user_modules import CannotTravel, find_module, folder_of, importable
from slipway.jobs.submit.find import refresh
from slipway.jobs.submit.logs import POLL_SECONDS, LogLine, Wanted, follow_lines, new_words
from slipway.jobs.submit.preparing import prepare
from slipway.jobs.submit.submission import Consent, Submitted, submit_prepared
from slipway.jobs.words.errors import InvalidConfig, SlipwayError
from slipway.jobs.words.given import checked, wrong_record
from slipway.jobs.words.job import PROJECT_PREFIX, Job
from slipway.jobs.words.launch_environment import launch_environment
from slipway.jobs.words.run import AGREED_UNSAID, ERROR, Agreed, AnyFound, JobState
from slipway.jobs.words.targets import Target
from slipway.jobs.words.text import Say

R = TypeVar("R")
_LAST_LINES = 20
_WHAT = "the function"


class FunctionFailed(SlipwayError):
    """The function's job failed; `rank` is the rank that raised first, and `lines` are its last log lines."""

    def __init__(self, message: str, *, hint: str, rank: int | None, lines: Sequence[str]) -> None:
        super().__init__("\n".join([message, *lines]), hint=hint)
        self.rank = rank
        self.lines = tuple(lines)


class NoResult(SlipwayError):
    """A rank ended well but left no result that can be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """Options of the job that runs a function; each means what the Job field of that name means."""

    name: str | None = None  # None: the function's name
    region: str | None = None
    processes_per_node: int | None = None
    timeout_seconds: int | None = None
    attempts: int | None = None
    data: str | None = None
    checkpoints: str | None = None
    image: str | None = None
    requirements: str | None = None  # a file in the folder; pip installs it first
    limit_mb: int = DEFAULT_LIMIT_MB  # megabytes of the packed folder
    include_secrets: bool = False
    again: bool = False  # True: run the call again; otherwise the same call is the same job
    agreed: Agreed = AGREED_UNSAID
    say: Say = lambda _: None

    def __post_init__(self) -> None:
        if problems := list(wrong_record(self)):
            raise InvalidConfig(problems)


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionJob(Generic[R]):
    """The job that runs a function; its methods wait for what the ranks return."""

    submitted: Submitted
    ranks: int
    say: Say = lambda _: None

    @property
    def name(self) -> str:
        return self.submitted.prepared.name

    @property
    def job_id(self) -> str:
        return self.submitted.job_id

    def result(self) -> R:
        """Wait until the job has ended, and return what rank 0 returned."""
        self.wait()
        return self._returned(0)

    def results(self) -> list[R]:
        """Wait until the job has ended, and return what each rank returned, by rank."""
        self.wait()
        return [self._returned(rank) for rank in range(self.ranks)]

    def wait(self, pause: Callable[[float], None] = time.sleep) -> None:
        """Wait until the job has ended; raise FunctionFailed if it failed."""
        seen = new_words(self.say)
        while True:
            found = aws.outlast(partial(refresh, self.job_id, self._target), pause)
            seen(found.run)
            if found.run.state is JobState.SUCCEEDED:
                return
            if found.run.state.is_final:
                raise failure_of(found, list(follow_lines(found, Wanted(), to_end=True, pause=pause)))
            pause(POLL_SECONDS)

    @property
    def _target(self) -> Target:
        return self.submitted.prepared.target

    def _returned(self, rank: int) -> R:
        where = {"Bucket": self._target.bucket, "ExpectedBucketOwner": self._target.account}
        s3 = aws.reader("s3", self._target.region)
        found = find_object(s3, "GetObject", Key=result_key(self.name, rank), **where)
        if found is None:
            raise NoResult(
                f"rank {rank} of {self.name} ended well and left no result",
                hint="let the function return, and not end by sys.exit()",
            )
        if found["ContentLength"] > MOST_BYTES:
            raise NoResult(
                f"the result of rank {rank} of {self.name} has {found['ContentLength']} bytes, and at most "
                f"{MOST_BYTES} are read",
                hint="ranks write none that large: something else wrote there",
            )
        try:
            returned = decode_value(found["Body"].read(), f"the result of rank {rank} of {self.name}")
        except Refusal as refusal:
            raise SlipwayError(refusal.message, hint=refusal.hint) from None
        return cast(R, returned)  # JSON made lists of its tuples


@checked
def run(
    function: Callable[..., R],
    *arguments: object,
    on: str,
    nodes: int = 1,
    options: RunOptions = RunOptions(),
    **named: object,
) -> FunctionJob[R]:
    """Call the function on every rank of a deployed cluster; return the job, whose `result()` waits.

    The same call is the same job. If the function has parameters named `on`, `nodes` or `options`, pass them
    with functools.partial.
    """
    if running := os.environ.get(variables.JOB):
        raise Refusal(
            f"slipway.run was called on a node of {running}, which imports your module",
            hint='call it below `if __name__ == "__main__":`',
        )
    code = _checked(function, arguments, named)
    content = _encoded(code, arguments, named)
    module = find_module(code, _WHAT)
    sent = folder_of(
        [module] if module else [], limit_mb=options.limit_mb, include_secrets=options.include_secrets
    )
    target = find_target_by_name(on, options.region)
    if options.requirements:
        refuse_requirements(options.requirements, sent, target)
    for words in words_of_skipped(sent):
        options.say(words)
    with tempfile.TemporaryDirectory(prefix="slipway-function-") as scratch:
        packed = pack_project(sent, Path(scratch) / "folder.tar.gz")
        call = _Call(code=code, arguments=Path(scratch) / f"{sha256(content).hexdigest()}{SUFFIX}")
        call.arguments.write_bytes(content)
        job = _job(call, packed, target, nodes, options)
        submitted = _submit(job, call, packed, target, options)
    per_node = int(launch_environment(job, target, job.name)[variables.PROCESSES_PER_NODE])
    return FunctionJob(submitted=submitted, ranks=per_node * nodes, say=options.say)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Call:
    code: CodeReference
    arguments: Path  # a file named by its digest

    @property
    def key(self) -> str:
        """Return the arguments' key: under the prefix of sent folders, which jobs can read and not change."""
        return f"{PROJECT_PREFIX}{self.arguments.name}"


def _job(call: _Call, packed: PackedProject, target: Target, nodes: int, options: RunOptions) -> Job:
    words = call_words(f"{call.code.module}:{call.code.name}", f"s3://{target.bucket}/{call.key}")
    own = OwnCommand(words=words, requirements=options.requirements)
    return Job(
        name=job_name(call.code.name) if options.name is None else options.name,
        recipe=RECIPE,
        nodes=nodes,
        settings=command_settings(own, project_url(packed.digest, target)),
        processes_per_node=options.processes_per_node,
        timeout_seconds=options.timeout_seconds,
        attempts=options.attempts,
        data=options.data,
        checkpoints=options.checkpoints,
        image=options.image,
    )


def _submit(job: Job, call: _Call, packed: PackedProject, target: Target, options: RunOptions) -> Submitted:
    def bring() -> None:
        s3 = aws.client("s3", target.region)
        if upload_project(packed, target, s3):
            options.say(f"sent the folder to {job.settings['source']}")
        upload_once(call.arguments, call.key, target, s3)

    prepared = prepare(job, target.name, target.region)
    for warning in prepared.warnings:
        options.say(warning)
    consent = Consent(agreed=options.agreed, again=options.again)
    return submit_prepared(prepared, consent, bring=bring, say=options.say)


def _checked(
    function: Callable[..., object], arguments: Sequence[object], named: Mapping[str, object]
) -> CodeReference:
    """Return where nodes find the function; refuse one that they cannot find, and wrong arguments."""
    code = importable(function, _WHAT)
    try:
        inspect.signature(function).bind(*arguments, **named)
    except TypeError as error:
        raise CannotTravel(f"{code.name} cannot be called so: {error}", hint="give what it takes") from None
    except ValueError:
        pass  # some functions written in C have no signature
    return code


def _encoded(code: CodeReference, arguments: Sequence[object], named: Mapping[str, object]) -> bytes:
    """Encode all arguments of the call, including those that a functools.partial holds."""
    try:
        for number, value in enumerate(arguments, start=1):
            refuse_value(value, f"argument {number}")
        for name, value in named.items():
            refuse_value(value, f"argument {name}")
        everything: dict[str, object] = {**dict[str, object](code.options), **named}
        return encode_value([[*code.arguments, *arguments], everything], "the call")
    except Refusal as refusal:
        raise CannotTravel(refusal.message, hint=refusal.hint) from None


# Why a job of a function failed, as its ranks said it: the first that raised is the cause, since others then
# lose it. An attempt before the last one ended for another reason.


def failure_of(found: AnyFound, lines: Sequence[LogLine]) -> FunctionFailed:
    """Return the error of the rank that raised first in the last attempt, with that rank's last lines."""
    run = found.run
    began = run.started_at if len(run.attempts) > 1 else None
    of_ranks = [line for line in lines if line.rank is not None and (began is None or line.time >= began)]
    raised = next((line for line in of_ranks if _said(line).startswith(ERROR)), None)
    rank = None if raised is None else raised.rank
    why = _said(raised).removeprefix(ERROR) if raised else run.reason or f"it ended as {run.status}"
    chosen = [_said(line) for line in (of_ranks if rank is not None else lines) if rank in (None, line.rank)]
    return FunctionFailed(
        f"{run.name} failed on rank {rank}: {why}" if raised else f"{run.name} failed: {why}",
        hint=f"slipway logs {run.name}, or slipway explain {run.name}",
        rank=rank,
        lines=chosen[-_LAST_LINES:],
    )


def _said(line: LogLine) -> str:
    return line.text if line.rank is None else line.text.partition("] ")[2]
