"""Bucket policies. They are judged where roles ask (yard/permissions); moto's own reading of them is off."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slipway.yard.cloudformation.resources.api import ApiResource, call, find, setting
from slipway.yard.cloudformation.resources.provider import Provider
from slipway.yard.cloudformation.resources.scope import ID, ResourceScope, prop
from slipway.yard.cloudformation.resources.shapes import like


def write_policy(scope: ResourceScope, bucket: str, policy: Mapping[str, Any] | str | None) -> None:
    if policy is None:
        scope.send("delete_bucket_policy", Bucket=bucket)
    else:
        scope.send("put_bucket_policy", Bucket=bucket, Policy=policy)


BUCKET_POLICY = ApiResource(
    service="s3",
    create_call=lambda _scope: {},
    identity=prop("Bucket"),
    accepts=frozenset({"Bucket"}),
    settings=(
        setting("PolicyDocument", put=call("put_bucket_policy", Bucket=ID, Policy=prop("PolicyDocument"))),
    ),
    delete_call=call("delete_bucket_policy", Bucket=ID),
    describe=find("get_bucket_policy", "", Bucket=ID),
    reads={"PolicyDocument": lambda scope: like(scope.properties["PolicyDocument"], scope.live["Policy"])},
)

PROVIDERS: Mapping[str, Provider] = {"AWS::S3::BucketPolicy": BUCKET_POLICY}
