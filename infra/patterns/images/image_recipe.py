"""What Image Builder does to the parent image: components in their order, each told its values of the lock.

Components and recipes cannot change: one with other content has another version, a digest of that content.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256

from aws_cdk import Aws
from aws_cdk import aws_imagebuilder as imagebuilder
from constructs import Construct

from slipway.infra.declare.component_files import asked_parameters, read_component
from slipway.infra.declare.machine_images import MachineImage

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
            kms_key_id=f"arn:{Aws.PARTITION}:kms:{Aws.REGION}:{Aws.ACCOUNT_ID}:alias/aws/ebs",
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
