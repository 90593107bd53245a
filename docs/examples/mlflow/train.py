"""Sends the loss of each step to an MLflow server; MLFLOW_TRACKING_URI says where it is."""

import os

import mlflow

is_first = os.environ.get("RANK", "0") == "0"  # one run for all ranks
if is_first:
    mlflow.set_experiment(os.environ.get("MLFLOW_EXPERIMENT_NAME", "slipway"))
    mlflow.start_run(run_name=os.environ.get("SLIPWAY_JOB"))
for step in range(1, 21):
    loss = 1 / step
    if is_first:
        mlflow.log_metric("loss", loss, step=step)
        print(f"step {step}/20  loss {loss:.4f}", flush=True)
if is_first:
    mlflow.end_run()
