"""Explains in one sentence why a training job is not running, or why it failed, by SageMaker and the log."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from slipway.jobs.cloud.aws import reader
from slipway.jobs.cloud.objects import find_streams, last_lines
from slipway.jobs.platforms.reasons import Told, counted, explained, known_reason, told_by_state
from slipway.jobs.platforms.sagemaker.runs import transitions
from slipway.jobs.words.launch_environment import saved_in
from slipway.jobs.words.run import (
    AGAIN,
    EXIT_CODES,
    LONGER,
    RETRY_EXIT_CODE,
    SEE_LOG,
    Explanation,
    Found,
    JobState,
    Reason,
    last_error,
)
from slipway.jobs.words.targets import SageMakerTarget

# SageMaker's words on a training job that waits or failed, each with a sentence and what to do. A new one is
# one row. SageMaker AI Developer Guide, "Troubleshoot training jobs"; API Reference,
# SecondaryStatusTransition; CreateTrainingJob's refusals as users report them. The first match wins, so
# narrower patterns come first.
REASONS: tuple[Reason, ...] = (
    Reason(
        pattern=r"service limit|ResourceLimitExceeded",
        means="the account's quota of this instance type for training jobs is too small",
        fix="slipway cluster quota {target} --request",
    ),
    Reason(
        pattern=r"CapacityError|[Ii]nsufficient capacity|Unable to provision requested ML compute",
        means="AWS has too few free machines of this type in the cluster's zone",
        fix="ask again later, in another zone or Region, or for fewer nodes; reserved capacity does not wait",
    ),
    Reason(
        pattern=r"assume (the )?role|not authorized to perform: sts:AssumeRole",
        means="SageMaker may not assume the cluster's execution role",
        fix="deploy the cluster again: the role must exist and trust sagemaker.amazonaws.com",
    ),
    Reason(
        pattern=r"No S3 objects found|NoSuchKey|NoSuchBucket|Data download failed|S3DownloadError",
        means="its data is not where it looks for it, or its role may not read it",
        fix="check --data and the settings that begin with s3://; copy it into the cluster's bucket: "
        "slipway cluster upload FILE --on {target}",
    ),
    Reason(
        pattern=r"bucket .*region|PermanentRedirect|AuthorizationHeaderMalformed",
        means="a bucket that it uses lies in another Region",
        fix="copy the data into the cluster's bucket: slipway cluster upload FILE --on {target}",
    ),
    Reason(
        pattern=r"No module named|ModuleNotFoundError|ImportError",
        means="the training image lacks a Python package that the recipe needs",
        fix="name an image that holds it in the cluster's declaration and deploy, or give the cluster a way "
        "to the internet: cdk deploy {target} -c {target}.egress=nat",
    ),
    Reason(
        pattern=r"image .*(not found|does not exist)|manifest .*not found|CannotPull|[Uu]nable to pull|"
        r"ecr:BatchGetImage",
        means="the training image is not there, or the execution role may not pull it",
        fix="slipway cluster targets {target} names the image; check Region, tag and the role's rights",
    ),
    Reason(
        pattern=r"No space left on device|disk (is )?full|[Oo]ut of disk",
        means="the volume of an instance is full",
        fix="raise volume_gb in clusters.py and deploy, or read the data from a file system",
    ),
    Reason(
        pattern=r"MaxWaitTimeExceeded|[Mm]ax(imum)? ?[Ww]ait",
        means="it waited for Spot capacity longer than it may",
        fix="raise the Spot wait in clusters.py, or use a cluster on demand; --checkpoints resumes",
    ),
    Reason(
        pattern=r"MaxRuntimeExceeded|[Mm]ax(imum)? ?[Rr]un ?time",
        means="it took longer than its timeout, which counts all attempts together",
        fix=LONGER,
    ),
    Reason(
        pattern=r"OutOfMemory|out of memory|OOM|exit ?code:? 137",
        means="a process used more memory than there is",
        fix="set a smaller micro_batch or fewer workers; without a change it will fail again",
    ),
    Reason(
        pattern=r"InternalServerError|internal error",
        means="SageMaker itself failed, in the last attempt as well",
        fix=AGAIN,
    ),
)


_LAST_EVENTS = 200
_NOT_REPEATED = ", and SageMaker tries a job again only for faults of its own"

TrainingFound = Found[SageMakerTarget]


def explain(found: TrainingFound) -> Explanation:
    told = _BY_STATE.get(found.run.state, _unremarkable)(found)
    streams = log_streams(found) if found.run.state is JobState.FAILED else []
    error = None
    if own := [name for node, name in streams if node == 0]:  # of the first instance, where rank 0 is
        logs = reader("logs", found.target.region)
        error = last_error(last_lines(logs, found.target.log_group, own[-1], events=_LAST_EVENTS))
    said = [
        found.detail.get("FailureReason"),
        f"the log: {error}" if error else "",
        *_history(found.detail),
    ]
    kept = saved_in(found.run.name, found.target)
    return explained(found.run, told, found.target.machine_image, said, kept)


def log_streams(found: TrainingFound) -> list[tuple[int, str]]:
    """List the streams of all instances, each with its node: NAME/algo-1-… is node 0."""
    names = find_streams(found.target.region, found.target.log_group, f"{found.run.name}/algo-")
    numbers = [(name.rpartition("/")[2].split("-"), name) for name in names]
    return sorted((int(parts[1]) - 1, name) for parts, name in numbers if parts[1].isdigit())


def _waiting(found: TrainingFound) -> Told:
    said = found.run.reason
    if said is None:
        return f"waits for {_instances(found)} to start, which takes minutes", ""
    reason = known_reason(said, REASONS)
    if reason is None:
        return f"waits for {_instances(found)}; SageMaker says: {said}", ""
    return f"waits: {reason.means}", reason.fix


def _starting(found: TrainingFound) -> Told:
    return f"has {_instances(found)}, which fetch the image and the data", ""


def _unremarkable(found: TrainingFound) -> Told:
    run, model = found.run, (found.detail.get("ModelArtifacts") or {}).get("S3ModelArtifacts")
    if run.state is JobState.RUNNING and run.status != "Training":
        return f"runs on {_instances(found)}, and is {run.status}", ""
    if run.state is JobState.SUCCEEDED and model:
        return f"succeeded; its model is {model}", ""
    return told_by_state(run, "instance")


def _failed(found: TrainingFound) -> Told:
    if found.run.status == "Stopped":
        return "was cancelled", AGAIN
    said = found.detail.get("FailureReason") or ""
    if reason := known_reason(f"{found.run.status} {said}", REASONS):
        return f"failed: {reason.means}", reason.fix
    code = found.run.exit_code
    if code is not None and (known := EXIT_CODES.get(code)):
        means = f"{known.means}{_NOT_REPEATED if code == RETRY_EXIT_CODE else ''}"
        return f"failed: {means} (exit code {code}): {_first_line(said)}", known.fix
    if said:
        return f"failed: {_first_line(said)}", SEE_LOG
    return "failed, and SageMaker does not say why", SEE_LOG


_BY_STATE: Mapping[JobState, Callable[[TrainingFound], Told]] = {
    JobState.WAITING: _waiting,
    JobState.STARTING: _starting,
    JobState.FAILED: _failed,
}


def _instances(found: TrainingFound) -> str:
    return counted(found.run.nodes, "instance")


def _first_line(said: str) -> str:
    """Return what the launcher wrote, without SageMaker's words before it."""
    return said.removeprefix("AlgorithmError: ").strip().split("\n", 1)[0]


def _history(detail: Mapping[str, object]) -> Iterator[str]:
    """Yield the history of the job, with one line for each secondary status."""
    for each in transitions(detail):
        ends = each.get("EndTime")
        took = f" for {(ends - each['StartTime']).total_seconds():.0f} s" if ends else ""
        message = f": {each['StatusMessage']}" if each.get("StatusMessage") else ""
        yield f"{each['StartTime']:%H:%M:%S} {each['Status']}{took}{message}"
