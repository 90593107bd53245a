"""A script of SageMaker's SDK 2 as its documentation shows it; nothing here refers to the yard."""

from __future__ import annotations

import json
import sys

import boto3
from sagemaker.pytorch import PyTorch
from sagemaker.session import Session

bucket = "slipway-estimator"
boto3.client("s3").create_bucket(Bucket=bucket)
iam = boto3.client("iam")
trust = {"Effect": "Allow", "Principal": {"Service": "sagemaker.amazonaws.com"}, "Action": "sts:AssumeRole"}
rights = {"Effect": "Allow", "Action": ["s3:*", "ecr:*", "logs:*"], "Resource": "*"}
documents = [json.dumps({"Version": "2012-10-17", "Statement": [said]}) for said in (trust, rights)]
made = iam.create_role(RoleName="estimator", AssumeRolePolicyDocument=documents[0])
iam.put_role_policy(RoleName="estimator", PolicyName="training", PolicyDocument=documents[1])
estimator = PyTorch(
    entry_point="estimator.py",
    source_dir=sys.argv[1],
    role=made["Role"]["Arn"],
    instance_type="ml.m5.large",
    instance_count=1,
    framework_version="2.2.0",
    py_version="py310",
    hyperparameters={"epochs": 1},
    debugger_hook_config=False,  # the Debugger is closed to new customers, and the SDK asks for it
    disable_profiler=True,
    sagemaker_session=Session(default_bucket=bucket),
)
estimator.fit(wait=False)
name = estimator.latest_training_job.name
waiter = boto3.client("sagemaker").get_waiter("training_job_completed_or_stopped")
waiter.wait(TrainingJobName=name, WaiterConfig={"Delay": 1, "MaxAttempts": 240})
Session().logs_for_job(name)
print("model:", estimator.model_data)
