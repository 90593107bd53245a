"""Single operations that moto lacks or answers differently than AWS. To add one: a function and a row."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from slipway.yard.chaos import consistency
from slipway.yard.errors import ApiError
from slipway.yard.gateway.pipeline import Answerer
from slipway.yard.machines.hosts import host_store, metadata
from slipway.yard.moto_backends import moto_backend

Parameters = Mapping[str, Any]


# Deletion of VPCs and subnets: unlike moto, EC2 refuses one in use, and deletes its default network ACL.
@contextmanager
def _refused_by_moto() -> Iterator[None]:
    from moto.core.exceptions import ServiceException

    try:
        yield
    except ServiceException as error:
        raise ApiError(str(error.code), str(error.message)) from error


def _delete_vpc(parameters: Parameters, region: str) -> dict[str, Any]:
    backend, vpc = moto_backend("ec2", region), parameters["VpcId"]
    endpoints = backend.vpc_end_points.values()
    gateways = backend.internet_gateways.values()
    left = [
        *(group.id for group in backend.groups.get(vpc, {}).values() if group.name != "default"),
        *(endpoint.id for endpoint in endpoints if endpoint.vpc_id == vpc and endpoint.state != "deleted"),
        *(gateway.id for gateway in gateways if gateway.vpc and gateway.vpc.id == vpc),
    ]
    if left:
        message = f"The vpc '{vpc}' has dependencies and cannot be deleted: {', '.join(left)}."
        raise ApiError("DependencyViolation", message)
    with _refused_by_moto():
        backend.delete_vpc(vpc)
    for identifier, acl in list(backend.network_acls.items()):
        if acl.vpc_id == vpc and acl.default:
            del backend.network_acls[identifier]
    return {}


def _delete_subnet(parameters: Parameters, region: str) -> dict[str, Any]:
    backend, subnet = moto_backend("ec2", region), parameters["SubnetId"]
    interfaces = [eni.id for eni in backend.enis.values() if eni.subnet and eni.subnet.id == subnet]
    if interfaces:
        used = ", ".join(sorted(interfaces))
        message = f"The subnet '{subnet}' has dependencies and cannot be deleted: {used}."
        raise ApiError("DependencyViolation", message)
    with _refused_by_moto():
        backend.delete_subnet(subnet)
    for acl in backend.network_acls.values():
        for key, association in list(acl._associations.items()):
            if association.subnet_id == subnet:
                del acl._associations[key]
    return {}


def _create_tags(parameters: Parameters, region: str) -> dict[str, Any]:
    """Check the request now, as AWS does, and create the tags; the fault `consistency` delays them."""
    from moto.ec2.models import validate_resource_ids

    resources = list(parameters.get("Resources", ()))
    tags = {tag["Key"]: tag.get("Value", "") for tag in parameters.get("Tags", ())}
    backend = moto_backend("ec2", region)
    with _refused_by_moto():
        validate_resource_ids(resources)
        backend.do_resources_exist(resources)
    if parameters.get("DryRun"):
        message = "Request would have succeeded, but DryRun flag is set."
        raise ApiError("DryRunOperation", message, status=412)

    def put() -> None:
        with _refused_by_moto():
            backend.create_tags(resources, tags)

    consistency.later("tags", put)
    return {}


# User guide, "Connect to a Linux instance using EC2 Instance Connect": RSA and ED25519.
_KEY = re.compile(r"ssh-(rsa|ed25519) [A-Za-z0-9+/]+={0,2}( [ -~]*)?\s*")


def _send_key(parameters: Parameters, region: str) -> dict[str, Any]:
    """Keep a public key for a minute in the metadata, where the instance's sshd finds it.

    On AWS the key is signed, and a program in Ubuntu's and Amazon Linux's AMIs checks that. The hosts' own
    program accepts the unsigned key (yard/machines/hosts/planning/own_files.py).
    """
    host = host_store.hosts.get(parameters["InstanceId"])
    if host is None or host.instance.region != region:
        raise ApiError("EC2InstanceNotFoundException", f"Instance {parameters['InstanceId']} not found")
    if host_store.is_down(host):
        raise ApiError("EC2InstanceStateInvalidException", "Instance is not running")
    if not _KEY.fullmatch(parameters["SSHPublicKey"]):
        raise ApiError("InvalidArgsException", "SSHPublicKey is not an RSA or ED25519 key")
    metadata.push_key(host.instance.id, parameters["InstanceOSUser"], parameters["SSHPublicKey"].strip())
    return {"RequestId": str(uuid.uuid4()), "Success": True}


# EC2's default key for EBS volumes: moto can set it, but neither show nor reset it.
AWS_OWN_KEY = "alias/aws/ebs"  # EC2's answer in an account that never changed it


def _ebs_key(_parameters: Parameters, region: str) -> dict[str, Any]:
    return {"KmsKeyId": moto_backend("ec2", region).default_kms_key_id or AWS_OWN_KEY}


def _reset_ebs_key(parameters: Parameters, region: str) -> dict[str, Any]:
    moto_backend("ec2", region).default_kms_key_id = ""
    return _ebs_key(parameters, region)


# Clients of an OpenID Connect provider: moto keeps them, but has no calls that change them. As on AWS,
# repeating a call changes nothing.
def _add_client(parameters: Parameters, region: str) -> dict[str, Any]:
    _remove_client(parameters, region)
    _provider(parameters).client_id_list.append(parameters["ClientID"])
    return {}


def _remove_client(parameters: Parameters, _region: str) -> dict[str, Any]:
    provider = _provider(parameters)
    provider.client_id_list = [one for one in provider.client_id_list if one != parameters["ClientID"]]
    return {}


def _provider(parameters: Parameters) -> Any:
    return moto_backend("iam").get_open_id_connect_provider(parameters["OpenIDConnectProviderArn"])


def _list_ecs_clusters(_parameters: Parameters, region: str) -> dict[str, Any]:
    """List the ECS clusters that exist; moto also shows deleted ones."""
    clusters = moto_backend("ecs", region).clusters.values()
    return {"clusterArns": [cluster.arn for cluster in clusters if cluster.status == "ACTIVE"]}


OPERATIONS: Mapping[str, Answerer] = {
    "AddClientIDToOpenIDConnectProvider": _add_client,
    "CreateTags": _create_tags,
    "DeleteSubnet": _delete_subnet,
    "DeleteVpc": _delete_vpc,
    "GetEbsDefaultKmsKeyId": _ebs_key,
    "ListClusters": _list_ecs_clusters,
    # The CDK calls it after a failed deployment; the yard has no CloudTrail.
    "LookupEvents": lambda _parameters, _region: {"Events": []},
    "RemoveClientIDFromOpenIDConnectProvider": _remove_client,
    "ResetEbsDefaultKmsKeyId": _reset_ebs_key,
    "SendSSHPublicKey": _send_key,
}
