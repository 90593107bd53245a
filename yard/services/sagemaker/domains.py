"""SageMaker's domains get ids of SageMaker's form: moto makes them of the name, which may hold capitals."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any

from slipway.yard.endpoint import ACCOUNT
from slipway.yard.errors import ApiError

_OWN_PARAMETERS = {
    "AppNetworkAccessType": "app_network_access_type",
    "AppSecurityGroupManagement": "app_security_group_management",
    "AuthMode": "auth_mode",
    "DefaultSpaceSettings": "default_space_settings",
    "DefaultUserSettings": "default_user_settings",
    "DomainName": "domain_name",
    "DomainSettings": "domain_settings",
    "HomeEfsFileSystemKmsKeyId": "home_efs_file_system_kms_key_id",
    "KmsKeyId": "kms_key_id",
    "SubnetIds": "subnet_ids",
    "Tags": "tags",
    "VpcId": "vpc_id",
}


def call(_operation: str, parameters: Mapping[str, Any], region: str) -> dict[str, Any]:
    from moto.sagemaker.models import sagemaker_backends

    backend = sagemaker_backends[ACCOUNT][region]
    name = parameters["DomainName"]
    if any(domain.domain_name == name for domain in list(backend.domains.values())):
        raise ApiError("ResourceInUse", f"Resource Already Exists: Domain with name {name} already exists.")
    backend.create_domain(**{ours: parameters.get(aws) for aws, ours in _OWN_PARAMETERS.items()})
    domain = backend.domains.pop(f"d-{name}")
    domain.id = f"d-{secrets.token_hex(6)}"
    domain.arn = f"arn:aws:sagemaker:{region}:{ACCOUNT}:domain/{domain.id}"
    backend.domains[domain.id] = domain
    return {"DomainArn": domain.arn, "DomainId": domain.id, "Url": domain.url}
