"""A training as an object of SageMaker's own SDK, for those who live in notebooks.

`hugging_face` decides the same as `submit`, and hands over the SDK's object: `.fit()` of v2's HuggingFace or
`.train()` of v3's ModelTrainer sends it, waits and prints the log.
"""

from __future__ import annotations

from typing import Any

from slipway.jobs.cloud import aws
from slipway.jobs.cloud.deployed import find_target_by_name
from slipway.jobs.platforms.platform import platform_of
from slipway.jobs.submit.estimators.sdk import installed_major, load_sdk
from slipway.jobs.submit.estimators.training import Script, SdkTraining, of_request, of_script
from slipway.jobs.submit.preparing import prepare
from slipway.jobs.submit.submission import refuse_unconfirmed
from slipway.jobs.words.errors import SlipwayError
from slipway.jobs.words.job import Job
from slipway.jobs.words.run import AGREED_UNSAID, Agreed
from slipway.jobs.words.targets import SageMakerTarget, Target
from slipway.jobs.words.text import Say


class NotSageMaker(SlipwayError):
    """An estimator is SageMaker's, and the target is of another kind."""

    exit_code = 2


def hugging_face(
    work: Job | Script,
    *,
    on: str,
    region: str | None = None,
    agreed: Agreed = AGREED_UNSAID,
    say: Say = print,
) -> Any:
    """Return the installed SDK's own object for a job of a recipe, or for a script of yours.

    A job's code is uploaded now, and the object has the job's own name: what it sends is what `submit` would
    send, and SageMaker takes it once. A script the SDK uploads and names itself, when it is sent.
    """
    major = installed_major()
    if isinstance(work, Job):
        training = _of_job(work, on, region, agreed, say)
    else:
        training = of_script(work, _sagemaker_target(find_target_by_name(on, region)))
    return load_sdk(major).build_estimator(training)


def _of_job(job: Job, on: str, region: str | None, agreed: Agreed, say: Say) -> SdkTraining:
    prepared = prepare(job, on, region)
    target = _sagemaker_target(prepared.target)
    platform = platform_of(prepared.target)
    platform.refuse_unready(prepared)
    refuse_unconfirmed(prepared, agreed)
    platform.make_ready(prepared, say)
    request: Any = prepared.request  # SageMaker's own: the target says so
    # Beside the job's files, as `submit` puts it: by this folder a cluster's jobs are found.
    aws.client("s3", target.region).put_object(**request.put)
    return of_request(request.create, target)


def _sagemaker_target(target: Target) -> SageMakerTarget:
    if isinstance(target, SageMakerTarget):
        return target
    raise NotSageMaker(
        f"target '{target.name}' is of kind {target.kind}, and an estimator is SageMaker's",
        hint=f"submit(job, on='{target.name}') runs it there",
    )
