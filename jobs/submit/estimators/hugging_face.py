"""Returns a training as an object of SageMaker's own SDK, for users who work in notebooks.

`hugging_face` decides everything as `submit` does, and returns the SDK's object: `.fit()` of v2's HuggingFace
or `.train()` of v3's ModelTrainer sends it, waits and prints the log.
"""

from __future__ import annotations

from typing import Any

from slipway.jobs.cloud import aws
from slipway.jobs.cloud.deployed import find_target_by_name
from slipway.jobs.platforms.platform import platform_of
from slipway.jobs.submit.estimators.sdk import installed_major, load_sdk
from slipway.jobs.submit.estimators.training import Script, of_request, of_script
from slipway.jobs.submit.preparing import prepare
from slipway.jobs.submit.submission import refuse_unconfirmed
from slipway.jobs.words.errors import SlipwayError
from slipway.jobs.words.job import Job
from slipway.jobs.words.run import AGREED_UNSAID, Agreed
from slipway.jobs.words.targets import SageMakerTarget, Target
from slipway.jobs.words.text import Say


class NotSageMaker(SlipwayError):
    """The target is not SageMaker, and an estimator runs nowhere else."""

    exit_code = 2


def hugging_face(
    work: Job | Script,
    *,
    on: str,
    region: str | None = None,
    agreed: Agreed = AGREED_UNSAID,
    say: Say = print,
) -> Any:
    """Return the installed SDK's object for a job of a recipe, or for a training script of your own.

    For a job, the code is uploaded now and the object has the job's name: it sends the request that `submit`
    would send, and SageMaker accepts the name once. A script is uploaded and named by the SDK when it is
    sent.
    """
    major = installed_major()
    if isinstance(work, Job):
        prepared = prepare(work, on, region)
        target = _sagemaker_target(prepared.target)
        platform = platform_of(prepared.target)
        platform.refuse_unready(prepared)
        refuse_unconfirmed(prepared, agreed)
        platform.make_ready(prepared, say)
        request: Any = prepared.request  # a CreateTrainingJob, since the target is SageMaker's
        # Record the cluster in the job's folder, as `submit` does: a cluster's jobs are found by it.
        aws.client("s3", target.region).put_object(**request.put)
        training = of_request(request.create, target)
    else:
        training = of_script(work, _sagemaker_target(find_target_by_name(on, region)))
    return load_sdk(major).build_estimator(training)


def _sagemaker_target(target: Target) -> SageMakerTarget:
    if isinstance(target, SageMakerTarget):
        return target
    raise NotSageMaker(
        f"target '{target.name}' is of kind {target.kind}, and an estimator is SageMaker's",
        hint=f"submit(job, on='{target.name}') runs it there",
    )
