"""Rules for AWS PCS: roles it accepts, machines close together and of one image, idle workers that end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from slipway.infra.verify.rules.template import (
    Finding,
    Properties,
    Template,
    as_list,
    checks,
    efa_interfaces,
    in_cluster_group,
    launch_data,
    logical_id,
    resources,
    rule,
)

_CLUSTER = "AWS::PCS::Cluster"
_GROUP = "AWS::PCS::ComputeNodeGroup"
_PATH = "/aws-pcs/"


@rule("pcs-roles")
def roles_are_for_pcs(template: Template) -> Iterator[Finding]:
    """Require the path by which AWS PCS recognises a role that it may pass on, or its prefix."""
    profiles = dict(resources(template, "AWS::IAM::InstanceProfile"))
    roles = dict(resources(template, "AWS::IAM::Role"))
    for name, properties in resources(template, _GROUP):
        profile = profiles.get(_attribute_of(properties.get("IamInstanceProfileArn")), {})
        held = [roles.get(logical_id(role) or "", {}) for role in as_list(profile.get("Roles"))]
        if not held or not all(map(_is_for_pcs, (profile, *held))):
            yield Finding(name, f"its instance profile and role need the path {_PATH}")


@checks("pcs-machines-named", _GROUP)
def machines_are_named(properties: Properties) -> Iterator[str]:
    """Require an image and a version of the template: without them, the newest is used."""
    if not properties.get("AmiId"):
        yield "names no AmiId; take the one that the bakery published"
    version = properties.get("CustomLaunchTemplate", {}).get("Version", "$Default")
    if version in ("$Default", "$Latest"):
        yield f"starts version {version} of its template; use the attribute"


@rule("pcs-close")
def workers_are_close(template: Template) -> Iterator[Finding]:
    """Require one subnet and a cluster placement group for EFA; a capacity block is close by itself."""
    for name, properties in resources(template, _GROUP):
        data = launch_data(template, properties.get("CustomLaunchTemplate", {}).get("TemplateId"))
        if not efa_interfaces(data):
            continue
        if len(as_list(properties.get("SubnetIds"))) != 1:
            yield Finding(name, "nodes with EFA need exactly one subnet: EFA ends at its zone")
        placed = in_cluster_group(template, data.get("Placement", {}).get("GroupName"))
        if not placed and properties.get("PurchaseOption") != "CAPACITY_BLOCK":
            yield Finding(name, "nodes with EFA need a placement group of strategy cluster")


@rule("pcs-nothing-idle")
def nothing_stays_but_the_login_node(template: Template) -> Iterator[Finding]:
    """Allow one machine that no job asked for; every other must end when it idles."""
    for name, properties in resources(template, _GROUP):
        fewest = properties.get("ScalingConfiguration", {}).get("MinInstanceCount")
        most = properties.get("ScalingConfiguration", {}).get("MaxInstanceCount")
        if fewest not in (0, 1) or (fewest == 1 and most != 1):
            yield Finding(name, f"keeps {fewest} machines without a job; start from none")
    for name, properties in resources(template, _CLUSTER):
        if not properties.get("SlurmConfiguration", {}).get("ScaleDownIdleTimeInSeconds"):
            yield Finding(name, "says no ScaleDownIdleTimeInSeconds; idle machines are billed")


@checks("pcs-accounts", _CLUSTER)
def accounts_are_kept(properties: Properties) -> Iterator[str]:
    """Require accounting: without it ended jobs are forgotten, and `slipway status` cannot show them."""
    accounting = properties.get("SlurmConfiguration", {}).get("Accounting", {})
    if accounting.get("Mode") != "STANDARD":
        yield "keeps no accounts: set Accounting.Mode to STANDARD"


@checks("pcs-devices", _GROUP)
def devices_agree(properties: Properties) -> Iterator[str]:
    """Require each device in both of Slurm's files: in one alone, it drains every node or is unavailable."""
    slurm = properties.get("SlurmConfiguration", {})
    if any(each.get("Name") == "gpu" for each in as_list(slurm.get("GresCustomSettings"))):
        yield "has a record of gpu: AWS PCS makes it from the instance type"
    present = {f"{each.get('Name')}:{each.get('Count')}" for each in as_list(slurm.get("GresCustomSettings"))}
    said = {
        each.get("ParameterValue")
        for each in as_list(slurm.get("SlurmCustomSettings"))
        if each.get("ParameterName") == "Gres"
    }
    if present != said:
        yield f"gres.conf has {sorted(present)}, Gres says {sorted(said)}"


def _is_for_pcs(named: Properties) -> bool:
    own = str(named.get("RoleName") or named.get("InstanceProfileName") or "")
    return _PATH in str(named.get("Path")) or own.startswith("AWSPCS")


def _attribute_of(value: object) -> str:
    """Return whose attribute the value is: a Ref would be a name, and no ARN."""
    return str(value["Fn::GetAtt"][0]) if isinstance(value, Mapping) and "Fn::GetAtt" in value else ""
