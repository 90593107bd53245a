"""The bakery of one machine image: recipe, pipeline, and the record by which `slipway bake` finds them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from constructs import Construct

from slipway.infra.declare.machine_images import MachineImage
from slipway.infra.patterns.declared_stack import DeclaredStack
from slipway.infra.patterns.images.bakery_network import BakeryNetwork
from slipway.infra.patterns.images.bakery_record import BakeryRecord, BakeryRecordProps
from slipway.infra.patterns.images.bakery_roles import BakeryProps
from slipway.infra.patterns.images.image_pipeline import ImagePipeline, ImagePipelineProps
from slipway.infra.patterns.images.image_recipe import ImageRecipe, ImageRecipeProps
from slipway.infra.patterns.images.payload_asset import DeliveredPayload, PayloadFile, deliver_payload
from slipway.infra.patterns.storage.encryption import EncryptedLogGroup, EncryptedLogGroupProps
from slipway.jobs.words.images.amis import Bakery, ami_parameter, ami_tags
from slipway.jobs.words.images.containers import manifest_parameter


@dataclass(frozen=True, slots=True, kw_only=True)
class LockProps:
    digest: str
    versions: Mapping[str, str]
    values: Mapping[str, str]  # by the parameters of components


@dataclass(frozen=True, slots=True, kw_only=True)
class BakeryStackProps:
    image: MachineImage
    network: BakeryNetwork
    lock: LockProps
    payload: PayloadFile | None


class BakeryStack(DeclaredStack):
    def __init__(self, scope: Construct, id: str, *, props: BakeryStackProps) -> None:
        super().__init__(scope, id, declared=props.image, tags=props.image.billing_tags)
        logs = EncryptedLogGroup(
            self,
            "Logs",
            props=EncryptedLogGroupProps(
                name=f"/aws/imagebuilder/{id}",
                key=props.network.log_key,
                retention_days=props.image.log_retention_days,
                keep=False,
            ),
        )
        payload = deliver_payload(self, "Payload", props.payload)
        recipe = _recipe(self, props, payload)
        pipeline = _pipeline(self, props, recipe=recipe, logs=logs, payload=payload)
        bakery = _bakery(self, props, recipe=recipe, pipeline=pipeline, logs=logs)
        BakeryRecord(self, "Bakery", props=BakeryRecordProps(bakery=bakery))


def _recipe(stack: BakeryStack, props: BakeryStackProps, payload: DeliveredPayload) -> ImageRecipe:
    return ImageRecipe(
        stack,
        "Recipe",
        props=ImageRecipeProps(
            name=stack.stack_name,
            image=props.image,
            values={**props.lock.values, **payload.values},
            fingerprint=f"{sorted(props.lock.values.items())} {payload.digest}",
        ),
    )


def _pipeline(
    stack: BakeryStack,
    props: BakeryStackProps,
    *,
    recipe: ImageRecipe,
    logs: EncryptedLogGroup,
    payload: DeliveredPayload,
) -> ImagePipeline:
    return ImagePipeline(
        stack,
        "Pipeline",
        props=ImagePipelineProps(
            bakery=BakeryProps(
                resource_name=stack.stack_name,
                image=props.image,
                network=props.network,
                log_group_arn=logs.arn,
                payload_arn=payload.object_arn,
            ),
            recipe=recipe,
            log_group_name=logs.name,
            ami_tags={**props.image.billing_tags, **_ami_tags(props, recipe)},
        ),
    )


def _ami_tags(props: BakeryStackProps, recipe: ImageRecipe) -> Mapping[str, str]:
    return ami_tags(
        props.image.name,
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
    image = props.image
    return Bakery(
        name=image.name,
        account=stack.account,
        region=image.region,
        pipeline_arn=pipeline.resource.attr_arn,
        ami_parameter=ami_parameter(image.name),
        manifest_parameter=manifest_parameter(ami_parameter(image.name)),
        lock_digest=props.lock.digest,
        recipe_version=recipe.version,
        log_group=logs.name,
        parent=image.parent,
        snapshot=props.lock.values["AptSnapshot"],
    )
