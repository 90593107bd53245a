"""The bakery of one machine image: recipe, pipeline, and the record by which `slipway bake` finds them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from aws_cdk import Environment, Stack
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_s3_assets as s3_assets
from constructs import Construct

from slipway.infra.patterns.images.bakery_record import BakeryRecord, BakeryRecordProps
from slipway.infra.patterns.images.bakery_roles import BakeryProps
from slipway.infra.patterns.images.image_pipeline import ImagePipeline, ImagePipelineProps
from slipway.infra.patterns.images.image_recipe import ImageRecipe, ImageRecipeProps
from slipway.infra.patterns.storage.encryption import EncryptedLogGroup, EncryptedLogGroupProps
from slipway.jobs.core.images.amis import Bakery, ami_parameter, ami_tags
from slipway.jobs.core.images.container_locks import manifest_parameter


@dataclass(frozen=True, slots=True, kw_only=True)
class LockProps:
    digest: str
    versions: Mapping[str, str]
    values: Mapping[str, str]  # by the parameters of components


@dataclass(frozen=True, slots=True, kw_only=True)
class PayloadProps:
    file: Path
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BakeryStackProps:
    image: str
    stack_name: str
    env: Environment
    region: str
    parent: str
    components: tuple[str, ...]
    lock: LockProps
    payload: PayloadProps | None
    instance_type: str
    root_volume_gib: int
    keep_images: int
    subnet_id: str
    security_group_id: str
    log_bucket: s3.IBucket
    log_key: kms.IKey
    log_retention_days: int
    tags: Mapping[str, str]


class BakeryStack(Stack):
    def __init__(self, scope: Construct, id: str, *, props: BakeryStackProps) -> None:
        super().__init__(scope, id, stack_name=props.stack_name, env=props.env)
        logs = EncryptedLogGroup(
            self,
            "Logs",
            props=EncryptedLogGroupProps(
                name=f"/aws/imagebuilder/{props.stack_name}",
                key=props.log_key,
                retention_days=props.log_retention_days,
                keep=False,
            ),
        )
        asset = _payload(self, props)
        recipe = _recipe(self, props, asset)
        pipeline = _pipeline(self, props, recipe=recipe, logs=logs, asset=asset)
        bakery = _bakery(self, props, recipe=recipe, pipeline=pipeline, logs=logs)
        BakeryRecord(self, "Bakery", props=BakeryRecordProps(bakery=bakery))


def _payload(stack: BakeryStack, props: BakeryStackProps) -> s3_assets.Asset | None:
    if props.payload is None:
        return None
    return s3_assets.Asset(stack, "Payload", path=str(props.payload.file), asset_hash=props.payload.digest)


def _recipe(stack: BakeryStack, props: BakeryStackProps, asset: s3_assets.Asset | None) -> ImageRecipe:
    values, payload = dict(props.lock.values), ""
    if asset is not None and props.payload is not None:
        payload = props.payload.digest
        values |= {"PayloadSource": asset.s3_object_url, "PayloadSha256": payload}
    return ImageRecipe(
        stack,
        "Recipe",
        props=ImageRecipeProps(
            name=props.stack_name,
            parent=props.parent,
            components=props.components,
            values=values,
            fingerprint=f"{sorted(props.lock.values.items())} {payload}",
            root_volume_gib=props.root_volume_gib,
        ),
    )


def _pipeline(
    stack: BakeryStack,
    props: BakeryStackProps,
    *,
    recipe: ImageRecipe,
    logs: EncryptedLogGroup,
    asset: s3_assets.Asset | None,
) -> ImagePipeline:
    bakery = BakeryProps(
        resource_name=props.stack_name,
        region=props.region,
        ami_parameter=ami_parameter(props.image),
        parent=props.parent,
        log_group_arn=logs.arn,
        log_objects_arn=props.log_bucket.arn_for_objects(f"{props.image}/*"),
        payload_arn=asset.bucket.arn_for_objects(asset.s3_object_key) if asset else None,
        subnet_id=props.subnet_id,
        security_group_id=props.security_group_id,
    )
    return ImagePipeline(
        stack,
        "Pipeline",
        props=ImagePipelineProps(
            bakery=bakery,
            recipe=recipe,
            instance_type=props.instance_type,
            log_group_name=logs.name,
            log_place=(props.log_bucket.bucket_name, props.image),
            ami_tags={**props.tags, **_ami_tags(props, recipe)},
            machine_tags=props.tags,
            keep_images=props.keep_images,
        ),
    )


def _ami_tags(props: BakeryStackProps, recipe: ImageRecipe) -> Mapping[str, str]:
    return ami_tags(
        props.image,
        lock_digest=props.lock.digest,
        recipe_version=recipe.version,
        versions=props.lock.versions,
    )


def _bakery(
    stack: BakeryStack,
    props: BakeryStackProps,
    *,
    recipe: ImageRecipe,
    pipeline: ImagePipeline,
    logs: EncryptedLogGroup,
) -> Bakery:
    return Bakery(
        name=props.image,
        account=stack.account,
        region=props.region,
        pipeline_arn=pipeline.resource.attr_arn,
        ami_parameter=ami_parameter(props.image),
        manifest_parameter=manifest_parameter(ami_parameter(props.image)),
        lock_digest=props.lock.digest,
        recipe_version=recipe.version,
        log_group=logs.name,
        parent=props.parent,
    )
