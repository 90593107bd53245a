"""Bucket policies, kept apart from buckets because moto must not see all of one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slipway.yard.cloudformation.resources.provider import Context, Fidelity, Properties, Provider, Resource
from slipway.yard.cloudformation.resources.recorded import ResourceRecord, forget, keep, recall
from slipway.yard.cloudformation.resources.scope import ResourceScope, is_gone
from slipway.yard.errors import ApiError

POLICY_TYPE = "AWS::S3::BucketPolicy"


class BucketPolicy:
    """moto applies a Deny without reading its Condition, so a TLS-only policy would lock everyone out.

    Such statements are recorded only; the others go to the bucket, where moto's access logging wants them.
    """

    fidelity = Fidelity.RECORDED

    def create(self, context: Context, properties: Properties) -> Resource:
        bucket = str(properties["Bucket"])
        enforceable = without_conditional_denies(properties["PolicyDocument"])
        scope = ResourceScope(context=context, service="s3", id=bucket)
        scope.send("head_bucket", Bucket=bucket)
        write_policy(scope, bucket, enforceable if enforceable["Statement"] else None)
        keep(
            ResourceRecord(
                region=context.region,
                type=POLICY_TYPE,
                physical_id=bucket,
                properties=properties,
                attributes={},
            )
        )
        return Resource(physical_id=bucket)

    def update(self, context: Context, resource: Resource, old: Properties, new: Properties) -> Resource:
        return self.create(context, new)

    def delete(self, context: Context, resource: Resource, properties: Properties) -> None:
        forget(context.region, POLICY_TYPE, resource.physical_id)
        try:
            scope = ResourceScope(context=context, service="s3")
            scope.send("delete_bucket_policy", Bucket=resource.physical_id)
        except ApiError as error:
            if not is_gone(error):
                raise

    def read(self, context: Context, resource: Resource, properties: Properties) -> Properties | None:
        kept = recall(context.region, POLICY_TYPE, resource.physical_id)
        return kept.properties if kept else None


def without_conditional_denies(policy: Mapping[str, Any]) -> dict[str, Any]:
    listed = policy["Statement"] if isinstance(policy["Statement"], list) else [policy["Statement"]]
    kept = [item for item in listed if not (item["Effect"] == "Deny" and item.get("Condition"))]
    return {**policy, "Statement": kept}


def write_policy(scope: ResourceScope, bucket: str, policy: Mapping[str, Any] | str | None) -> None:
    if policy is None:
        scope.send("delete_bucket_policy", Bucket=bucket)
    else:
        scope.send("put_bucket_policy", Bucket=bucket, Policy=policy)


PROVIDERS: Mapping[str, Provider] = {POLICY_TYPE: BucketPolicy()}
