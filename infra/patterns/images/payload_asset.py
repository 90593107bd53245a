"""How the payload of a bake reaches S3, for components that ask for it. Most machine images have none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from aws_cdk import aws_s3_assets as s3_assets
from constructs import Construct


@dataclass(frozen=True, slots=True, kw_only=True)
class PayloadFile:
    path: Path
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveredPayload:
    """Holds what components are told about the payload, and the object that their machine may read."""

    values: Mapping[str, str] = field(default_factory=dict)
    digest: str = ""
    object_arn: str | None = None


def deliver_payload(scope: Construct, id: str, file: PayloadFile | None) -> DeliveredPayload:
    if file is None:
        return DeliveredPayload()
    asset = s3_assets.Asset(scope, id, path=str(file.path), asset_hash=file.digest)
    return DeliveredPayload(
        values={"PayloadSource": asset.s3_object_url, "PayloadSha256": file.digest},
        digest=file.digest,
        object_arn=asset.bucket.arn_for_objects(asset.s3_object_key),
    )
