"""Where the files of a training job lie: in its container, and in the cluster's bucket. Infra allows these.

A bucket is one cluster's, so that the folders below jobs/ are the names of the cluster's jobs.
"""

from __future__ import annotations

# In the container (SageMaker AI Developer Guide, "Amazon SageMaker AI Training Storage Folders").
CODE = "/opt/ml/code"
CHANNELS = "/opt/ml/input/data"  # a folder a channel
CHECKPOINTS = "/opt/ml/checkpoints"  # each instance's own, which SageMaker copies to the bucket and back
TENSORBOARD = "/opt/ml/output/tensorboard"
MODEL = "/opt/ml/model"  # which SageMaker packs as model.tar.gz when the job ends

# The program at the root of a job's code: containers/runtime/launch/sagemaker_entry.py.
ENTRY_POINT = "slipway_start.py"

JOBS = "jobs/"


def job_prefix(name: str) -> str:
    return f"{JOBS}{name}/"


def job_url(bucket: str, name: str, part: str) -> str:
    """Return where one sort of a job's files lies: checkpoints, tensorboard, profile."""
    return f"s3://{bucket}/{job_prefix(name)}{part}"


def output_url(bucket: str) -> str:
    """Return the prefix below which SageMaker writes NAME/output/model.tar.gz itself."""
    return f"s3://{bucket}/{JOBS.rstrip('/')}"


def channel_folder(channel: str) -> str:
    return f"{CHANNELS}/{channel}"
