"""Rules for bakeries of machine images: closed machines, encrypted disks, tests, verified downloads."""

from __future__ import annotations

from collections.abc import Iterator

import yaml

from slipway.infra.declare.checks.components import mistakes
from slipway.infra.verify.rules.template import (
    Finding,
    Properties,
    Template,
    as_list,
    checks,
    resources,
    rule,
)


@checks("bakery-components", "AWS::ImageBuilder::Component")
def components_are_sound(properties: Properties) -> Iterator[str]:
    """Check components as documents, their shell, and what they download."""
    text = str(properties.get("Data", ""))
    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError as error:
        yield f"its Data is no YAML: {error}"
        return
    if not isinstance(document, dict):
        yield "its Data is no document with a name and phases"
        return
    yield from mistakes(str(document.get("name")), text, document)


@checks("bakery-closed", "AWS::ImageBuilder::InfrastructureConfiguration")
def machines_are_closed(properties: Properties) -> Iterator[str]:
    """Require a subnet, too: Image Builder's default one gives public addresses."""
    options = properties.get("InstanceMetadataOptions", {})
    if options.get("HttpTokens") != "required" or options.get("HttpPutResponseHopLimit") != 1:
        yield "InstanceMetadataOptions must require tokens with a hop limit of 1"
    if "KeyPair" in properties:
        yield "names a key pair; machines are reached by Session Manager"
    for needed in ("SubnetId", "SecurityGroupIds"):
        if not properties.get(needed):
            yield f"has no {needed}; the account's default ones are public"
    if properties.get("TerminateInstanceOnFailure") is not True:
        yield "TerminateInstanceOnFailure must be true: a failed bake costs money"


@checks("bakery-disks-encrypted", "AWS::ImageBuilder::ImageRecipe")
def disks_are_encrypted(properties: Properties) -> Iterator[str]:
    disks = as_list(properties.get("BlockDeviceMappings"))
    if not disks or not all(disk.get("Ebs", {}).get("Encrypted") is True for disk in disks):
        yield "every disk must be listed with Encrypted: true"


@rule("bakery-tested")
def images_are_tested_and_ours(template: Template) -> Iterator[Finding]:
    for name, properties in resources(template, "AWS::ImageBuilder::ImagePipeline"):
        if properties.get("ImageTestsConfiguration", {}).get("ImageTestsEnabled") is not True:
            yield Finding(name, "ImageTestsEnabled must be true: tests decide what is published")
        if "Schedule" in properties:
            yield Finding(name, "has a schedule; an AMI is baked only when somebody asks for it")
    for name, properties in resources(template, "AWS::ImageBuilder::DistributionConfiguration"):
        for each in as_list(properties.get("Distributions")):
            shared = each.get("AmiDistributionConfiguration", {}).get("LaunchPermissionConfiguration")
            if shared:
                yield Finding(name, "shares the AMI with other accounts; keep it in this one")
