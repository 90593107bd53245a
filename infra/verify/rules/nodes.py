"""Launch templates: metadata with tokens only, encrypted disks, no public address, no key pair."""

from __future__ import annotations

from collections.abc import Iterator

from slipway.infra.verify.rules.template import Finding, Properties, Template, as_list, resources


def metadata_needs_tokens(template: Template) -> Iterator[Finding]:
    for name, data in _launch_templates(template):
        options = data.get("MetadataOptions", {})
        if options.get("HttpTokens") != "required" or options.get("HttpPutResponseHopLimit") != 1:
            yield Finding(where=name, message="MetadataOptions must require tokens with a hop limit of 1")


def disks_are_encrypted(template: Template) -> Iterator[Finding]:
    for name, data in _launch_templates(template):
        disks = as_list(data.get("BlockDeviceMappings"))
        if not disks or not all(disk.get("Ebs", {}).get("Encrypted") is True for disk in disks):
            yield Finding(where=name, message="every disk must be listed with Encrypted: true")


def no_public_address(template: Template) -> Iterator[Finding]:
    for name, data in _launch_templates(template):
        if any(each.get("AssociatePublicIpAddress") for each in as_list(data.get("NetworkInterfaces"))):
            yield Finding(where=name, message="asks for a public address; reach nodes by Session Manager")
    for name, properties in resources(template, "AWS::EC2::Subnet"):
        if properties.get("MapPublicIpOnLaunch"):
            yield Finding(where=name, message="gives public addresses; MapPublicIpOnLaunch must be false")


def no_key_pair(template: Template) -> Iterator[Finding]:
    for name, data in _launch_templates(template):
        if "KeyName" in data:
            yield Finding(where=name, message="names a key pair; nodes are reached by Session Manager")
    for name, _ in resources(template, "AWS::EC2::KeyPair"):
        yield Finding(where=name, message="is a key pair; nodes are reached by Session Manager")


def _launch_templates(template: Template) -> Iterator[tuple[str, Properties]]:
    for name, properties in resources(template, "AWS::EC2::LaunchTemplate"):
        yield name, properties["LaunchTemplateData"]
