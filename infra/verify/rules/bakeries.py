"""Rules for bakeries of machine images: closed machines, encrypted disks, tests, verified downloads."""

from __future__ import annotations

from collections.abc import Iterator

import yaml

from slipway.infra.declare.checks.components import mistakes
from slipway.infra.verify.rules.template import Finding, Template, as_list, resources

_INFRASTRUCTURE = "AWS::ImageBuilder::InfrastructureConfiguration"
_RECIPE = "AWS::ImageBuilder::ImageRecipe"


def components_are_sound(template: Template) -> Iterator[Finding]:
    """Check components as documents, their shell, and what they download."""
    for name, properties in resources(template, "AWS::ImageBuilder::Component"):
        text = str(properties.get("Data", ""))
        try:
            document = yaml.safe_load(text)
        except yaml.YAMLError as error:
            yield Finding(where=name, message=f"its Data is no YAML: {error}")
            continue
        if not isinstance(document, dict):
            yield Finding(where=name, message="its Data is no document with a name and phases")
            continue
        for said in mistakes(str(document.get("name")), text, document):
            yield Finding(where=name, message=said)


def machines_are_closed(template: Template) -> Iterator[Finding]:
    """Require a subnet, too: Image Builder's default one gives public addresses."""
    for name, properties in resources(template, _INFRASTRUCTURE):
        options = properties.get("InstanceMetadataOptions", {})
        if options.get("HttpTokens") != "required" or options.get("HttpPutResponseHopLimit") != 1:
            yield Finding(
                where=name, message="InstanceMetadataOptions must require tokens with a hop limit of 1"
            )
        if "KeyPair" in properties:
            yield Finding(where=name, message="names a key pair; machines are reached by Session Manager")
        for needed in ("SubnetId", "SecurityGroupIds"):
            if not properties.get(needed):
                yield Finding(where=name, message=f"has no {needed}; the account's default ones are public")
        if properties.get("TerminateInstanceOnFailure") is not True:
            yield Finding(
                where=name, message="TerminateInstanceOnFailure must be true: a failed bake costs money"
            )


def disks_are_encrypted(template: Template) -> Iterator[Finding]:
    for name, properties in resources(template, _RECIPE):
        disks = as_list(properties.get("BlockDeviceMappings"))
        if not disks or not all(disk.get("Ebs", {}).get("Encrypted") is True for disk in disks):
            yield Finding(where=name, message="every disk must be listed with Encrypted: true")


def images_are_tested_and_ours(template: Template) -> Iterator[Finding]:
    for name, properties in resources(template, "AWS::ImageBuilder::ImagePipeline"):
        if properties.get("ImageTestsConfiguration", {}).get("ImageTestsEnabled") is not True:
            yield Finding(
                where=name, message="ImageTestsEnabled must be true: tests decide what is published"
            )
        if "Schedule" in properties:
            yield Finding(
                where=name, message="has a schedule; an AMI is baked only when somebody asks for it"
            )
    for name, properties in resources(template, "AWS::ImageBuilder::DistributionConfiguration"):
        for each in as_list(properties.get("Distributions")):
            shared = each.get("AmiDistributionConfiguration", {}).get("LaunchPermissionConfiguration")
            if shared:
                yield Finding(where=name, message="shares the AMI with other accounts; keep it in this one")
