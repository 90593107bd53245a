"""What SageMaker says of a training job that waits or failed, in a sentence and with what to do.

A new one is one row. SageMaker AI Developer Guide, "Troubleshoot training jobs"; API Reference,
SecondaryStatusTransition; the words of CreateTrainingJob's refusals as users report them.
"""

from __future__ import annotations

import re

from slipway.jobs.words.explanation import Reason

# The first that fits counts, so the narrower comes first.
REASONS: tuple[Reason, ...] = (
    Reason(
        pattern=r"service limit|ResourceLimitExceeded",
        means="the account's quota of this instance type for training jobs is too small",
        fix="slipway quota {target} --request",
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
        "slipway upload FILE --on {target}",
    ),
    Reason(
        pattern=r"bucket .*region|PermanentRedirect|AuthorizationHeaderMalformed",
        means="a bucket that it uses lies in another Region",
        fix="copy the data into the cluster's bucket: slipway upload FILE --on {target}",
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
        fix="slipway targets {target} names the image; check its Region, its tag and the role's rights",
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
        fix="submit it again with a longer --timeout-hours; it resumes when given the same --checkpoints",
    ),
    Reason(
        pattern=r"OutOfMemory|out of memory|OOM|exit ?code:? 137",
        means="a process used more memory than there is",
        fix="set a smaller micro_batch or fewer workers; without a change it will fail again",
    ),
    Reason(
        pattern=r"InternalServerError|internal error",
        means="SageMaker itself failed, in the last attempt as well",
        fix="`slipway submit … --again --checkpoints …` resumes it",
    ),
)


def known_reason(said: str) -> Reason | None:
    return next((reason for reason in REASONS if re.search(reason.pattern, said)), None)
