"""How an image is baked and where it goes: machines without a public address, one id, old images deleted.

It runs when `slipway image bake` starts it and at no other time: an image changes when somebody means it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256

from aws_cdk import Aws
from aws_cdk import aws_iam as iam
from aws_cdk import aws_imagebuilder as imagebuilder
from constructs import Construct

from slipway.infra.declare.machine_images import MachineImage, asked_parameters, read_component
from slipway.infra.patterns.access.roles import ServiceRole, ServiceRoleProps
from slipway.infra.patterns.images.bakery_roles import (
    BakeryProps,
    execution_statements,
    instance_statements,
    lifecycle_statements,
)
from slipway.infra.patterns.statements import ACCOUNT_ID, PARTITION, Statement
from slipway.jobs.words.images.amis import ami_parameter

_IN_USE_WEEKS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class ImagePipelineProps:
    bakery: BakeryProps
    recipe: ImageRecipe
    log_group_name: str
    ami_tags: Mapping[str, str]


class ImagePipeline(Construct):
    def __init__(self, scope: Construct, id: str, *, props: ImagePipelineProps) -> None:
        super().__init__(scope, id)
        machine = _machine_role(self, props)
        execution = _role(
            self,
            "Execution",
            "Image Builder: bakes one image and publishes its id",
            execution_statements(self, props.bakery, machine.arn),
        )
        self.resource = imagebuilder.CfnImagePipeline(
            self,
            "Resource",
            name=props.bakery.resource_name,
            description="Started by slipway image bake; it has no schedule",
            image_recipe_arn=props.recipe.resource.attr_arn,
            infrastructure_configuration_arn=_infrastructure(self, props, machine).attr_arn,
            distribution_configuration_arn=_distribution(self, props).attr_arn,
            execution_role=execution.arn,
            # An inventory of packages, which takes rights of its own: the lock says what is in there.
            enhanced_image_metadata_enabled=False,
            image_tests_configuration=imagebuilder.CfnImagePipeline.ImageTestsConfigurationProperty(
                image_tests_enabled=True
            ),
            logging_configuration=imagebuilder.CfnImagePipeline.PipelineLoggingConfigurationProperty(
                image_log_group_name=props.log_group_name, pipeline_log_group_name=props.log_group_name
            ),
        )
        self.resource.node.add_dependency(execution.policy)
        _lifecycle(self, props)


def _infrastructure(
    scope: Construct, props: ImagePipelineProps, machine: ServiceRole
) -> imagebuilder.CfnInfrastructureConfiguration:
    profile = iam.CfnInstanceProfile(scope, "MachineProfile", roles=[machine.role.role_name])
    infrastructure = imagebuilder.CfnInfrastructureConfiguration
    image, network = props.bakery.image, props.bakery.network
    return infrastructure(
        scope,
        "Infrastructure",
        name=props.bakery.resource_name,
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
                s3_key_prefix=image.name,  # what AWSTOE itself writes down
            )
        ),
        resource_tags=dict(image.billing_tags),
        terminate_instance_on_failure=True,  # its logs are kept
    )


def _distribution(scope: Construct, props: ImagePipelineProps) -> imagebuilder.CfnDistributionConfiguration:
    distribution = imagebuilder.CfnDistributionConfiguration
    return distribution(
        scope,
        "Distribution",
        name=props.bakery.resource_name,
        distributions=[
            distribution.DistributionProperty(
                region=props.bakery.image.region,
                # A mapping: the CDK writes its own type for this property as CloudFormation does not take it.
                ami_distribution_configuration={
                    "Name": f"{props.bakery.resource_name}-{{{{ imagebuilder:buildDate }}}}",
                    "AmiTags": props.ami_tags,
                },
                ssm_parameter_configurations=[
                    distribution.SsmParameterConfigurationProperty(
                        parameter_name=ami_parameter(props.bakery.image.name), data_type="aws:ec2:image"
                    )
                ],
            )
        ],
    )


def _lifecycle(scope: Construct, props: ImagePipelineProps) -> None:
    """Delete by the recipe's name, whatever its version: a new lock makes a new version."""
    role = _role(
        scope,
        "Lifecycle",
        "Image Builder: deletes old images of one pipeline",
        lifecycle_statements(scope, props.bakery),
    )
    policy = imagebuilder.CfnLifecyclePolicy
    resource = policy(
        scope,
        "OldImages",
        name=props.bakery.resource_name,
        status="ENABLED",
        execution_role=role.arn,
        resource_type="AMI_IMAGE",
        resource_selection=policy.ResourceSelectionProperty(
            recipes=[
                policy.RecipeSelectionProperty(name=props.bakery.resource_name, semantic_version="x.x.x")
            ]
        ),
        policy_details=[
            policy.PolicyDetailProperty(
                action=policy.ActionProperty(
                    type="DELETE",
                    include_resources=policy.IncludeResourcesProperty(amis=True, snapshots=True),
                ),
                filter=policy.FilterProperty(type="COUNT", value=props.bakery.image.keep_images),
                # What nodes start from stays, however old: somebody went back to it.
                exclusion_rules=policy.ExclusionRulesProperty(
                    amis=policy.AmiExclusionRulesProperty(
                        last_launched=policy.LastLaunchedProperty(unit="WEEKS", value=_IN_USE_WEEKS)
                    )
                ),
            )
        ],
    )
    resource.node.add_dependency(role.policy)


def _machine_role(scope: Construct, props: ImagePipelineProps) -> ServiceRole:
    return ServiceRole(
        scope,
        "Machine",
        props=ServiceRoleProps(
            service="ec2",
            description="The machine that becomes an image: reads its components, answers Image Builder",
            for_this_account_only=False,
            statements=instance_statements(scope, props.bakery),
        ),
    )


def _role(scope: Construct, id: str, description: str, statements: tuple[Statement, ...]) -> ServiceRole:
    return ServiceRole(
        scope,
        id,
        props=ServiceRoleProps(service="imagebuilder", description=description, statements=statements),
    )


# What Image Builder does to the parent image: components in their order, each told its values of the lock.
# Components and recipes cannot change: one with other content has another version, a digest of that content.
_LARGEST = 2**30  # of a part of a version, CreateComponent of the Image Builder API reference
_ROOT_DEVICE = "/dev/sda1"  # of Ubuntu's images


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageRecipeProps:
    name: str
    image: MachineImage
    values: Mapping[str, str]  # of parameters; may be tokens
    fingerprint: str  # of all values, tokens aside


class ImageRecipe(Construct):
    def __init__(self, scope: Construct, id: str, *, props: ImageRecipeProps) -> None:
        super().__init__(scope, id)
        self.version = _version(_described(props))
        self.resource = imagebuilder.CfnImageRecipe(
            self,
            "Resource",
            name=props.name,
            version=self.version,
            parent_image=props.image.parent,
            working_directory="/var/tmp",  # noqa: S108  # on a machine of its own
            components=[_component(self, name, props) for name in props.image.components],
            block_device_mappings=[_root_volume(props.image.root_volume_gib)],
            additional_instance_configuration=imagebuilder.CfnImageRecipe.AdditionalInstanceConfigurationProperty(
                # Nodes are reached by it: it stays, even where Image Builder had to install it.
                systems_manager_agent=imagebuilder.CfnImageRecipe.SystemsManagerAgentProperty(
                    uninstall_after_build=False
                )
            ),
        )


def _component(
    recipe: ImageRecipe, name: str, props: ImageRecipeProps
) -> imagebuilder.CfnImageRecipe.ComponentConfigurationProperty:
    text = read_component(name)
    resource = imagebuilder.CfnComponent(
        recipe,
        "".join(word.capitalize() for word in name.split("-")),
        name=f"{props.name}-{name}",
        platform="Linux",
        version=_version(text),
        data=text,
    )
    return imagebuilder.CfnImageRecipe.ComponentConfigurationProperty(
        component_arn=resource.attr_arn,
        parameters=[
            imagebuilder.CfnImageRecipe.ComponentParameterProperty(
                name=parameter, value=[props.values[parameter]]
            )
            for parameter in asked_parameters(name)
        ]
        or None,
    )


def _root_volume(gib: int) -> imagebuilder.CfnImageRecipe.InstanceBlockDeviceMappingProperty:
    """Encrypt with the account's EBS key of AWS's: another would have to be shared with every launcher.

    It is named, because the account's default may be another.
    """
    return imagebuilder.CfnImageRecipe.InstanceBlockDeviceMappingProperty(
        device_name=_ROOT_DEVICE,
        ebs=imagebuilder.CfnImageRecipe.EbsInstanceBlockDeviceSpecificationProperty(
            encrypted=True,
            kms_key_id=f"arn:{PARTITION}:kms:{Aws.REGION}:{ACCOUNT_ID}:alias/aws/ebs",
            delete_on_termination=True,
            volume_size=gib,
            volume_type="gp3",
        ),
    )


def _described(props: ImageRecipeProps) -> str:
    image = props.image
    texts = [read_component(name) for name in image.components]
    return json.dumps([image.parent, image.root_volume_gib, image.components, texts, props.fingerprint])


def _version(content: str) -> str:
    return f"1.0.{int(sha256(content.encode()).hexdigest()[:8], 16) % _LARGEST}"
