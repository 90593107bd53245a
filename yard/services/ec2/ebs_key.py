"""EC2's default key for EBS volumes: moto lets it be set, and neither read nor set back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slipway.yard.moto_backends import moto_backend

AWS_OWN_KEY = "alias/aws/ebs"  # as EC2 names it in an account that never changed it

Parameters = Mapping[str, Any]


def call(operation: str, _parameters: Parameters, region: str) -> dict[str, Any]:
    backend = moto_backend("ec2", region)
    if operation == "ResetEbsDefaultKmsKeyId":
        backend.default_kms_key_id = ""
    return {"KmsKeyId": backend.default_kms_key_id or AWS_OWN_KEY}
