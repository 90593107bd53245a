"""Rules for nodes: their launch templates, and the Auto Scaling groups that start them.

A launch template asks for tokens, encrypts its disks, and gives no public address and no key pair.
"""

from __future__ import annotations

from collections.abc import Iterator

from slipway.infra.verify.rules.template import (
    LAUNCH_TEMPLATE,
    Finding,
    Properties,
    Template,
    as_list,
    in_cluster_group,
    is_capacity_block,
    launch_data,
    resources,
)
from slipway.jobs.words.catalogue.instances import find_instance_type


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
    for name, properties in resources(template, LAUNCH_TEMPLATE):
        yield name, properties["LaunchTemplateData"]


# Auto Scaling groups: equal nodes close together, one thread on each core, no deployment that ends a job.
_GROUP = "AWS::AutoScaling::AutoScalingGroup"
# UpdatePolicy attributes that remove instances when the template of the stack changes.
_ENDS_NODES = ("AutoScalingReplacingUpdate", "AutoScalingRollingUpdate")


def nodes_are_close(template: Template) -> Iterator[Finding]:
    """Require a placement group, as nodes wait for each other; a capacity block has none."""
    for name, properties in resources(template, _GROUP):
        if len(as_list(properties.get("VPCZoneIdentifier"))) != 1:
            yield Finding(where=name, message="needs exactly one subnet: its nodes are in one zone")
        data = launch_data(template, _launch_template(properties).get("LaunchTemplateId"))
        if not in_cluster_group(template, properties.get("PlacementGroup")) and not is_capacity_block(data):
            yield Finding(where=name, message="needs a placement group of strategy cluster")


def template_version_is_explicit(template: Template) -> Iterator[Finding]:
    for name, properties in resources(template, _GROUP):
        version = _launch_template(properties).get("Version", "$Default")
        if version in ("$Default", "$Latest"):
            yield Finding(
                where=name, message=f"starts version {version} of its launch template; use the attribute"
            )


def no_deployment_ends_a_job(template: Template) -> Iterator[Finding]:
    for name, _ in resources(template, _GROUP):
        policy = template["Resources"][name].get("UpdatePolicy", {})
        for setting in _ENDS_NODES:
            if policy.get(setting):
                message = (
                    f"has UpdatePolicy {setting}, which removes nodes from a running job; refresh by hand"
                )
                yield Finding(where=name, message=message)


def one_thread_a_core(template: Template) -> Iterator[Finding]:
    """Require one thread on each core if EC2 can set it: two processes on a core wait for each other."""
    for name, properties in resources(template, LAUNCH_TEMPLATE):
        data = properties["LaunchTemplateData"]
        type_ = find_instance_type(str(data.get("InstanceType")))
        if type_ is None or type_.accelerator or type_.cores == type_.vcpus or not type_.threads_per_core:
            continue
        wanted = {"CoreCount": type_.cores, "ThreadsPerCore": 1}
        if data.get("CpuOptions") != wanted:
            yield Finding(where=name, message=f"CpuOptions of {type_.name} have to be {wanted}")


def no_options_where_none_are_taken(template: Template) -> Iterator[Finding]:
    """Refuse options that the type lacks: EC2 refuses the launch long after the deployment."""
    for name, properties in resources(template, LAUNCH_TEMPLATE):
        data = properties["LaunchTemplateData"]
        type_ = find_instance_type(str(data.get("InstanceType")))
        if type_ is not None and "CpuOptions" in data and not type_.threads_per_core:
            yield Finding(where=name, message=f"has CpuOptions, and {type_.name} takes none; leave them out")


def _launch_template(group: Properties) -> Properties:
    found: Properties = group.get("LaunchTemplate", {})
    return found
