"""Gets a template from the body of a request, the yard's S3, or the stack itself.

Stand-ins for templates that AWS publishes are here, too.
"""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs, unquote, urlparse

from slipway.yard.cloudformation.template import template
from slipway.yard.cloudformation.template.document import MAX_BODY_BYTES, MAX_OBJECT_BYTES
from slipway.yard.cloudformation.template.parameters import Lookups
from slipway.yard.cloudformation.template.template import Template
from slipway.yard.errors import validation_error

VIRTUAL_HOST = re.compile(r"(?P<bucket>.+)\.(s3[.-].*|localhost)")
PATH_HOST = re.compile(r"s3[.-].*|localhost")


def template_of(parameters: Mapping[str, Any], lookups: Lookups, previous: Template | None) -> Template:
    """Return the template that a request contains or names."""
    if parameters.get("UsePreviousTemplate"):
        if previous is None:
            raise validation_error("There is no previous template to use: give a template.")
        return previous
    body, url = parameters.get("TemplateBody"), parameters.get("TemplateURL")
    if (body is None) == (url is None):
        raise validation_error("Either Template URL or Template Body must be specified.")
    if body is None:
        return template.load(fetch(str(url), lookups))
    if len(body.encode()) > MAX_BODY_BYTES:
        raise validation_error(
            "1 validation error detected: Value at 'templateBody' failed to satisfy constraint: Member must"
            f" have length less than or equal to {MAX_BODY_BYTES}: upload it and give its TemplateURL"
        )
    return template.load(body)


def fetch(url: str, lookups: Lookups) -> str:
    """Return the text of a stored template."""
    bucket, key, version = locate(url)
    try:
        content = lookups.stored_object(bucket, key, version)
    except KeyError as error:
        if stand_in := text(bucket, key):
            return stand_in
        raise validation_error(
            f"S3 error: The specified key does not exist: {url}; the yard reaches its own S3 alone:"
            f" upload the template there as s3://{bucket}/{key}"
        ) from error
    if len(content) > MAX_OBJECT_BYTES:
        raise validation_error(f"Template may not exceed {MAX_OBJECT_BYTES} bytes in size.")
    return content.decode()


def locate(url: str) -> tuple[str, str, str | None]:
    """Return bucket, key and version of an S3 URL, in path style or virtual-host style."""
    parsed = urlparse(url)
    host, path = parsed.hostname or "", unquote(parsed.path).lstrip("/")
    version = parse_qs(parsed.query).get("versionId", [None])[0]
    virtual = VIRTUAL_HOST.fullmatch(host)
    if PATH_HOST.fullmatch(host) or _is_address(host) or parsed.scheme == "s3":
        whole = f"{host}/{path}" if parsed.scheme == "s3" else path
        bucket, _, key = whole.partition("/")
    elif virtual:
        bucket, key = virtual["bucket"], path
    else:
        bucket, key = "", ""
    if not bucket or not key:
        raise validation_error(f"TemplateURL must be a supported URL: {url} is no object of S3.")
    return bucket, key, version


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


# Stand-ins for templates that AWS publishes in its own buckets, for others to nest. To add one: a row of
# PUBLISHED. A stand-in has the parameters and outputs of AWS's template, but its own resources. An object of
# that name in the yard's S3 takes precedence. AWS makes ParallelCluster's clusters with a Lambda function; in
# the yard, custom/parallel_cluster.py records them.
_PARALLEL_CLUSTER: Mapping[str, Any] = {
    "Description": "A stand-in of the yard for ParallelCluster's provider of clusters",
    "Parameters": {
        name: {"Type": "String", "Default": ""}
        for name in ("CustomLambdaRole", "AdditionalIamPolicies", "CustomBucket")
    },
    "Resources": {"Handle": {"Type": "AWS::CloudFormation::WaitConditionHandle"}},
    "Outputs": {
        "ServiceToken": {
            "Value": {
                "Fn::Sub": [
                    "arn:${AWS::Partition}:lambda:${AWS::Region}:${AWS::AccountId}:function:pcluster-cfn-${Id}",
                    {"Id": {"Fn::Select": [2, {"Fn::Split": ["/", {"Ref": "AWS::StackId"}]}]}},
                ]
            }
        }
    },
}

# (bucket, key) -> stand-in
PUBLISHED: Mapping[tuple[str, str], Mapping[str, Any]] = {
    (
        r"[a-z0-9-]+-aws-parallelcluster",
        r"parallelcluster/[0-9.]+/templates/custom_resource/cluster\.yaml",
    ): _PARALLEL_CLUSTER,
}


def text(bucket: str, key: str) -> str | None:
    """Return the stand-in for this object; None if the yard has none."""
    for (buckets, keys), stand_in in PUBLISHED.items():
        if re.fullmatch(buckets, bucket) and re.fullmatch(keys, key):
            return json.dumps(stand_in)
    return None
