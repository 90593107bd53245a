"""How an image is baked and published: machines without a public address, one id, old images deleted.

It runs only when `slipway image bake` starts it, so images change only on purpose.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256

from aws_cdk import Aws, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_imagebuilder as imagebuilder
from constructs import Construct

from slipway.infra.declare.machine_images import MachineImage, asked_parameters, read_component
from slipway.infra.patterns.access.roles import ServiceRole
from slipway.infra.patterns.images.bakery_roles import (
    BakeryParts,
    execution_statements,
    instance_statements,
    lifecycle_statements,
)
from slipway.infra.patterns.statements import ACCOUNT_ID, PARTITION
from slipway.jobs.words.images.amis import ami_parameter

_IN_USE_WEEKS = 12


class ImagePipeline(Construct):
    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        bakery: BakeryParts,
        recipe: ImageRecipe,
        ami_tags: Mapping[str, str],
    ) -> None:
        super().__init__(scope, id)
        machine = ServiceRole(
            self,
            "Machine",
            service="ec2",
            description="The machine that becomes an image: reads its components, answers Image Builder",
            statements=instance_statements(bakery, recipe.component_arns),
        )
        execution = ServiceRole(
            self,
            "Execution",
            service="imagebuilder",
            description="Image Builder: bakes one image and publishes its id",
            statements=execution_statements(self, bakery, machine.arn),
        )
        self.resource = imagebuilder.CfnImagePipeline(
            self,
            "Resource",
            name=bakery.resource_name,
            description="Started by slipway image bake; it has no schedule",
            image_recipe_arn=recipe.resource.attr_arn,
            infrastructure_configuration_arn=_infrastructure(self, bakery, machine).attr_arn,
            distribution_configuration_arn=_distribution(self, bakery, ami_tags).attr_arn,
            execution_role=execution.arn,
            # An inventory of packages would need rights of its own, and the lock has it.
            enhanced_image_metadata_enabled=False,
            image_tests_configuration=imagebuilder.CfnImagePipeline.ImageTestsConfigurationProperty(
                image_tests_enabled=True
            ),
            logging_configuration=imagebuilder.CfnImagePipeline.PipelineLoggingConfigurationProperty(
                image_log_group_name=bakery.logs.name, pipeline_log_group_name=bakery.logs.name
            ),
        )
        self.resource.node.add_dependency(execution.policy)
        _lifecycle(self, bakery)


def _infrastructure(
    scope: Construct, bakery: BakeryParts, machine: ServiceRole
) -> imagebuilder.CfnInfrastructureConfiguration:
    profile = iam.CfnInstanceProfile(scope, "MachineProfile", roles=[machine.role.role_name])
    infrastructure = imagebuilder.CfnInfrastructureConfiguration
    image, network = bakery.image, bakery.network
    return infrastructure(
        scope,
        "Infrastructure",
        name=bakery.resource_name,
        instance_profile_name=profile.ref,
        instance_types=[image.instance_type],
        subnet_id=network.subnet_id,
        security_group_ids=[network.security_group_id],
        instance_metadata_options=infrastructure.InstanceMetadataOptionsProperty(
            http_tokens="required", http_put_response_hop_limit=1
        ),
        logging=infrastructure.LoggingProperty(
            s3_logs=infrastructure.S3LogsProperty(
                s3_bucket_name=network.log_bucket.bucket_name,
                s3_key_prefix=image.name,  # for AWSTOE's own log
            )
        ),
        resource_tags=dict(image.billing_tags),
        terminate_instance_on_failure=True,  # its logs are kept
    )


def _distribution(
    scope: Construct, bakery: BakeryParts, ami_tags: Mapping[str, str]
) -> imagebuilder.CfnDistributionConfiguration:
    distribution = imagebuilder.CfnDistributionConfiguration
    return distribution(
        scope,
        "Distribution",
        name=bakery.resource_name,
        distributions=[
            distribution.DistributionProperty(
                region=bakery.image.region,
                # A mapping: the CDK writes its own type for this property in a form that CloudFormation does
                # not accept.
                ami_distribution_configuration={
                    "Name": f"{bakery.resource_name}-{{{{ imagebuilder:buildDate }}}}",
                    "AmiTags": ami_tags,
                },
                ssm_parameter_configurations=[
                    distribution.SsmParameterConfigurationProperty(
                        parameter_name=ami_parameter(bakery.image.name), data_type="aws:ec2:image"
                    )
                ],
            )
        ],
    )


def _lifecycle(scope: Construct, bakery: BakeryParts) -> None:
    """Delete by the recipe's name, whatever its version: a new lock makes a new version."""
    role = ServiceRole(
        scope,
        "Lifecycle",
        service="imagebuilder",
        description="Image Builder: deletes old images of one pipeline",
        statements=lifecycle_statements(scope, bakery),
    )
    policy = imagebuilder.CfnLifecyclePolicy
    resource = policy(
        scope,
        "OldImages",
        name=bakery.resource_name,
        status="ENABLED",
        execution_role=role.arn,
        resource_type="AMI_IMAGE",
        resource_selection=policy.ResourceSelectionProperty(
            recipes=[policy.RecipeSelectionProperty(name=bakery.resource_name, semantic_version="x.x.x")]
        ),
        policy_details=[
            policy.PolicyDetailProperty(
                action=policy.ActionProperty(
                    type="DELETE",
                    include_resources=policy.IncludeResourcesProperty(amis=True, snapshots=True),
                ),
                filter=policy.FilterProperty(type="COUNT", value=bakery.image.keep_images),
                # The image that nodes start from stays, however old: somebody may have rolled back to it.
                exclusion_rules=policy.ExclusionRulesProperty(
                    amis=policy.AmiExclusionRulesProperty(
                        last_launched=policy.LastLaunchedProperty(unit="WEEKS", value=_IN_USE_WEEKS)
                    )
                ),
            )
        ],
    )
    resource.node.add_dependency(role.policy)


# What Image Builder does to the parent image: components in order, each with its values of the lock.
# Components and recipes cannot change: one with other content has another version, a digest of that content.
_LARGEST = 2**30  # of a part of a version, CreateComponent of the Image Builder API reference


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageLock:
    """Holds an image's lock: versions by program, and values by the parameters of components."""

    digest: str
    versions: Mapping[str, str]
    values: Mapping[str, str]


class ImageRecipe(Construct):
    """Takes the values of parameters, which may be tokens, and a fingerprint of all that are none."""

    def __init__(
        self, scope: Construct, id: str, *, image: MachineImage, values: Mapping[str, str], fingerprint: str
    ) -> None:
        super().__init__(scope, id)
        texts = [read_component(name) for name in image.components]
        content = [image.parent, image.root_volume_gib, image.components, texts, fingerprint]
        self.version = _version(json.dumps(content))
        components = [_component(self, name, values) for name in image.components]
        root_volume = imagebuilder.CfnImageRecipe.InstanceBlockDeviceMappingProperty(
            device_name="/dev/sda1",  # of Ubuntu's images
            ebs=imagebuilder.CfnImageRecipe.EbsInstanceBlockDeviceSpecificationProperty(
                encrypted=True,
                # AWS's EBS key of the account: another would have to be shared with every launcher. It is
                # named, because the account's default may be another.
                kms_key_id=f"arn:{PARTITION}:kms:{Aws.REGION}:{ACCOUNT_ID}:alias/aws/ebs",
                delete_on_termination=True,
                volume_size=image.root_volume_gib,
                volume_type="gp3",
            ),
        )
        self.component_arns = [arn for each in components if (arn := each.component_arn)]
        self.resource = imagebuilder.CfnImageRecipe(
            self,
            "Resource",
            name=Stack.of(self).stack_name,
            version=self.version,
            parent_image=image.parent,
            working_directory="/var/tmp",  # noqa: S108  # on a machine of its own
            components=components,
            block_device_mappings=[root_volume],
            additional_instance_configuration=imagebuilder.CfnImageRecipe.AdditionalInstanceConfigurationProperty(
                # Nodes are reached by it: it stays, even if Image Builder had to install it.
                systems_manager_agent=imagebuilder.CfnImageRecipe.SystemsManagerAgentProperty(
                    uninstall_after_build=False
                )
            ),
        )


def _component(
    recipe: ImageRecipe, name: str, values: Mapping[str, str]
) -> imagebuilder.CfnImageRecipe.ComponentConfigurationProperty:
    text = read_component(name)
    resource = imagebuilder.CfnComponent(
        recipe,
        "".join(word.capitalize() for word in name.split("-")),
        name=f"{Stack.of(recipe).stack_name}-{name}",
        platform="Linux",
        version=_version(text),
        data=text,
    )
    return imagebuilder.CfnImageRecipe.ComponentConfigurationProperty(
        component_arn=resource.attr_arn,
        parameters=[
            imagebuilder.CfnImageRecipe.ComponentParameterProperty(name=parameter, value=[values[parameter]])
            for parameter in asked_parameters(name)
        ]
        or None,
    )


def _version(content: str) -> str:
    return f"1.0.{int(sha256(content.encode()).hexdigest()[:8], 16) % _LARGEST}"
