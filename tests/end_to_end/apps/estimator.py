"""A SageMaker SDK 2 user's script, as its documentation would have it: nothing here knows of the yard."""

from __future__ import annotations

import sys

import boto3
from sagemaker.pytorch import PyTorch
from sagemaker.session import Session

bucket = "slipway-estimator"
boto3.client("s3").create_bucket(Bucket=bucket)
estimator = PyTorch(
    entry_point="estimator.py",
    source_dir=sys.argv[1],
    role="arn:aws:iam::123456789012:role/training",
    instance_type="ml.p4d.24xlarge",
    instance_count=2,
    framework_version="2.2.0",
    py_version="py310",
    hyperparameters={"epochs": 1},
    sagemaker_session=Session(default_bucket=bucket),
)
estimator.fit(wait=False)
print("job:", estimator.latest_training_job.name)
