"""Trains ../ddp/train.py on two instances with SageMaker's own SDK 2; `slipway cluster targets` says where."""

import json
import sys

from sagemaker.pytorch import PyTorch
from sagemaker.session import Session

cluster = json.load(sys.stdin)
place = f"s3://{cluster['bucket']}/jobs/estimator"  # the role may write below jobs/
estimator = PyTorch(
    entry_point="start.sh",
    source_dir=".",
    dependencies=["../ddp/train.py"],
    role=cluster["execution_role"],
    image_uri=cluster["image"],  # the role may pull no other image
    instance_type=cluster["instance_type"],
    instance_count=2,
    environment={"SLIPWAY_CHECKPOINTS": "/opt/ml/checkpoints", "STEPS": sys.argv[1]},
    checkpoint_s3_uri=f"{place}/checkpoints",  # the next job resumes from here
    output_path=f"{place}/output",
    code_location=f"{place}/code",
    debugger_hook_config=False,  # SageMaker's Debugger is closed to new customers
    disable_profiler=True,
    sagemaker_session=Session(default_bucket=cluster["bucket"]),
)
estimator.fit()
