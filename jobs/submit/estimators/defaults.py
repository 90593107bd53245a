"""What both SDKs are told, whatever the training."""

from __future__ import annotations

from typing import Any

from slipway.jobs.cloud import aws
from slipway.jobs.words.job_request import CODE_PREFIX as _CODE

LOG_LEVEL = 20  # logging.INFO
CODE_PREFIX = f"{_CODE}estimators"  # where an SDK puts a script's code, in the cluster's bucket


def sdk_defaults() -> dict[str, Any]:
    """Return the SDK's own configuration. In the yard it tells nobody what it does: nothing leaves there."""
    in_yard = aws.is_in_yard()
    return {"SchemaVersion": "1.0", "SageMaker": {"PythonSDK": {"Modules": {"TelemetryOptOut": in_yard}}}}
