"""The code of a training job, as AWS's toolkit wants it: an archive whose root holds the entry point."""

from __future__ import annotations

from slipway.jobs.cloud import aws
from slipway.jobs.platforms.code_bundle import Bundle, own_containers, pack, upload_if_absent
from slipway.jobs.words.errors import SlipwayError
from slipway.jobs.words.sagemaker.places import ENTRY_POINT
from slipway.jobs.words.targets import SageMakerTarget
from slipway.jobs.words.text import Say

# What ranks that write to a bucket import, and images of AWS lack; at the version of the other images.
BUCKET_PACKAGE = "obstore==0.11.1"
_ENTRY = "runtime/launch/sagemaker_entry.py"
_REQUIREMENTS = "requirements.txt"  # the toolkit installs it before it starts the entry point


class ChangedTrainingCode(SlipwayError):
    """The code changed while the job was prepared, so nothing was submitted."""


def pack_for(target: SageMakerTarget) -> Bundle:
    containers = own_containers()
    beside = {ENTRY_POINT: (containers / _ENTRY).read_bytes()}
    if target.has_internet:
        beside[_REQUIREMENTS] = f"{BUCKET_PACKAGE}\n".encode()
    return pack(containers, beside=beside)


def upload(target: SageMakerTarget, digest: str, say: Say) -> None:
    bundle = pack_for(target)
    if bundle.digest != digest:
        raise ChangedTrainingCode(
            "containers/ has changed while the job was prepared", hint="run the same command again"
        )
    owner = {"Bucket": target.bucket, "ExpectedBucketOwner": target.account}
    if upload_if_absent(bundle, aws.client("s3", target.region), owner):
        say(f"uploaded the code, {len(bundle.packed) // 1024} KiB")
