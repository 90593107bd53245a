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
    checks,
    in_cluster_group,
    is_capacity_block,
    launch_data,
    resources,
    rule,
)
from slipway.jobs.words.catalogue.instances import find_instance_type


def _launch_templates(template: Template) -> Iterator[tuple[str, Properties]]:
    for name, properties in resources(template, LAUNCH_TEMPLATE):
        yield name, properties["LaunchTemplateData"]


@checks("node-metadata-tokens", source=_launch_templates)
def metadata_needs_tokens(data: Properties) -> Iterator[str]:
    options = data.get("MetadataOptions", {})
    if options.get("HttpTokens") != "required" or options.get("HttpPutResponseHopLimit") != 1:
        yield "MetadataOptions must require tokens with a hop limit of 1"


@checks("node-disks-encrypted", source=_launch_templates)
def disks_are_encrypted(data: Properties) -> Iterator[str]:
    disks = as_list(data.get("BlockDeviceMappings"))
    if not disks or not all(disk.get("Ebs", {}).get("Encrypted") is True for disk in disks):
        yield "every disk must be listed with Encrypted: true"


@rule("node-no-public-address")
def no_public_address(template: Template) -> Iterator[Finding]:
    for name, data in _launch_templates(template):
        if any(each.get("AssociatePublicIpAddress") for each in as_list(data.get("NetworkInterfaces"))):
            yield Finding(name, "asks for a public address; reach nodes by Session Manager")
    for name, properties in resources(template, "AWS::EC2::Subnet"):
        if properties.get("MapPublicIpOnLaunch"):
            yield Finding(name, "gives public addresses; MapPublicIpOnLaunch must be false")


@rule("node-no-key-pair")
def no_key_pair(template: Template) -> Iterator[Finding]:
    for name, data in _launch_templates(template):
        if "KeyName" in data:
            yield Finding(name, "names a key pair; nodes are reached by Session Manager")
    for name, _ in resources(template, "AWS::EC2::KeyPair"):
        yield Finding(name, "is a key pair; nodes are reached by Session Manager")


# Auto Scaling groups: equal nodes close together, one thread on each core, no deployment that ends a job.
_GROUP = "AWS::AutoScaling::AutoScalingGroup"
# UpdatePolicy attributes that remove instances when the template of the stack changes.
_ENDS_NODES = ("AutoScalingReplacingUpdate", "AutoScalingRollingUpdate")


@rule("group-close")
def nodes_are_close(template: Template) -> Iterator[Finding]:
    """Require a placement group, as nodes wait for each other; a capacity block has none."""
    for name, properties in resources(template, _GROUP):
        if len(as_list(properties.get("VPCZoneIdentifier"))) != 1:
            yield Finding(name, "needs exactly one subnet: its nodes are in one zone")
        data = launch_data(template, _launch_template(properties).get("LaunchTemplateId"))
        if not in_cluster_group(template, properties.get("PlacementGroup")) and not is_capacity_block(data):
            yield Finding(name, "needs a placement group of strategy cluster")


@checks("group-template-version", _GROUP)
def template_version_is_explicit(properties: Properties) -> Iterator[str]:
    version = _launch_template(properties).get("Version", "$Default")
    if version in ("$Default", "$Latest"):
        yield f"starts version {version} of its launch template; use the attribute"


@rule("group-ends-no-job")
def no_deployment_ends_a_job(template: Template) -> Iterator[Finding]:
    for name, _ in resources(template, _GROUP):
        policy = template["Resources"][name].get("UpdatePolicy", {})
        for setting in _ENDS_NODES:
            if policy.get(setting):
                does = "removes nodes from a running job; refresh by hand"
                yield Finding(name, f"has UpdatePolicy {setting}, which {does}")


@checks("group-one-thread", source=_launch_templates)
def one_thread_a_core(data: Properties) -> Iterator[str]:
    """Require one thread on each core if EC2 can set it: two processes on a core wait for each other."""
    type_ = find_instance_type(str(data.get("InstanceType")))
    if type_ is None or type_.accelerator or type_.cores == type_.vcpus or not type_.threads_per_core:
        return
    wanted = {"CoreCount": type_.cores, "ThreadsPerCore": 1}
    if data.get("CpuOptions") != wanted:
        yield f"CpuOptions of {type_.name} have to be {wanted}"


@checks("group-cpu-options", source=_launch_templates)
def no_options_where_none_are_taken(data: Properties) -> Iterator[str]:
    """Refuse options that the type lacks: EC2 refuses the launch long after the deployment."""
    type_ = find_instance_type(str(data.get("InstanceType")))
    if type_ is not None and "CpuOptions" in data and not type_.threads_per_core:
        yield f"has CpuOptions, and {type_.name} takes none; leave them out"


def _launch_template(group: Properties) -> Properties:
    found: Properties = group.get("LaunchTemplate", {})
    return found
