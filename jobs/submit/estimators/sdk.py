"""Finds which of SageMaker's Python SDKs is installed; imports one only when its object is asked for.

Another major version is one module with `build_estimator`, and one row in each table.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Protocol, cast

from slipway.jobs.cloud import aws
from slipway.jobs.submit.estimators.training import SdkTraining
from slipway.jobs.words.errors import SlipwayError
from slipway.jobs.words.job import CODE_PREFIX as _CODE

_PACKAGE = "sagemaker"
_BUILDERS: Mapping[int, str] = {
    2: "slipway.jobs.submit.estimators.sdk_v2",
    3: "slipway.jobs.submit.estimators.sdk_v3",
}
_INSTALL: Mapping[int, str] = {
    2: "pip install 'sagemaker>=2.257,<3' (HuggingFace, about 300 MB)",
    3: "pip install 'sagemaker>=3.27,<4' (ModelTrainer, about 1 GB)",
}


class NoSdk(SlipwayError):
    """No version of SageMaker's SDK that Slipway knows is installed."""

    exit_code = 2


class Sdk(Protocol):
    """Describes the module that serves one major version."""

    def build_estimator(self, training: SdkTraining) -> Any:
        """Return the SDK's own object; nothing is sent."""


def load_sdk(major: int) -> Sdk:
    """Import the module for a major version, and with it the SDK."""
    return cast("Sdk", import_module(_BUILDERS[major]))


def installed_major() -> int:
    """Return the SDK's major version, without importing it; raise NoSdk if there is none."""
    try:
        found = version(_PACKAGE)
    except PackageNotFoundError:
        raise NoSdk("no SDK of SageMaker is installed", hint=_how_to_install()) from None
    major = found.split(".")[0]
    if not major.isdigit() or int(major) not in _BUILDERS:
        raise NoSdk(
            f"SageMaker's SDK {found} is installed, which Slipway does not know", hint=_how_to_install()
        )
    return int(major)


def _how_to_install() -> str:
    return " or ".join(_INSTALL.values()) + "; `slipway submit` needs neither"


# Settings that both SDKs are given for every training.
LOG_LEVEL = 20  # logging.INFO
CODE_PREFIX = f"{_CODE}estimators"  # prefix in the cluster's bucket under which an SDK uploads a script


def sdk_defaults() -> dict[str, Any]:
    """Return the SDK's own configuration; in the yard telemetry is off: nothing may leave the yard."""
    in_yard = aws.is_in_yard()
    return {"SchemaVersion": "1.0", "SageMaker": {"PythonSDK": {"Modules": {"TelemetryOptOut": in_yard}}}}
