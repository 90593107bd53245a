"""Checks of the AMI and the container image: that both exist, are of one lock, and are the deployed ones."""

from __future__ import annotations

from collections.abc import Mapping

from slipway.infra.declare.node_images import (
    ami_parameter_of,
    booted_image,
    container_of,
    locked_by,
    node_image_of,
    runs_containers,
)
from slipway.infra.declare.types import (
    BatchCluster,
    Cluster,
    NodeCluster,
    SageMakerCluster,
    SlurmCluster,
)
from slipway.jobs.cloud.aws import Unanswered
from slipway.jobs.clusters.preflight.facts import AMAZON, Facts, FoundAmi
from slipway.jobs.clusters.preflight.verdicts import Verdict, failed, ok, unanswered, unknown, warning
from slipway.jobs.words.catalogue.hardware import family_of
from slipway.jobs.words.catalogue.instances import instance_type
from slipway.jobs.words.images.ami_locks import missing_software
from slipway.jobs.words.images.amis import ami_parameter, bakery_stack_name, image_of
from slipway.jobs.words.images.containers import (
    Lock,
    image_names,
    manifest_parameter,
    mismatches,
    unsupported,
)
from slipway.jobs.words.images.support import NOTICE, ending
from slipway.jobs.words.installation import find_containers
from slipway.jobs.words.targets import BatchTarget, DamagedTarget
from slipway.jobs.words.text import NewerRecord

# States of a stack whose outputs can be used.
_SETTLED = ("CREATE_COMPLETE", "UPDATE_COMPLETE", "UPDATE_ROLLBACK_COMPLETE")


def machine_image(cluster: Cluster, facts: Facts) -> Verdict:
    if not isinstance(cluster, NodeCluster):
        return ok("needs none: SageMaker brings its machines")
    if isinstance(facts.parameter, Unanswered):
        return unanswered(facts.parameter)
    if facts.parameter is None:
        return failed(
            f"there is no SSM parameter {ami_parameter_of(cluster)}",
            _bake(cluster, facts),
        )
    image = facts.machine_image
    if isinstance(image, Unanswered):
        return unanswered(image)
    if image is None or image.state != "available":
        state = f"is {image.state}" if image else "is not there"
        return failed(
            f"{facts.parameter}, which {ami_parameter_of(cluster)} names, {state}", _bake(cluster, facts)
        )
    expected = instance_type(cluster.instance_type).architecture
    if image.architecture is None:
        return unknown(
            f"AWS does not say for which processors {image.id} is; {cluster.instance_type} is {expected}"
        )
    if image.architecture != expected:
        return failed(
            f"{image.id} is for {image.architecture}, and {cluster.instance_type} is {expected}",
            f"point {ami_parameter_of(cluster)} at an AMI for {expected}",
        )
    return _another(cluster, image) or ok(f"{image.id}, {image.architecture}")


def _another(cluster: NodeCluster, image: FoundAmi) -> Verdict | None:
    """Refuse an AMI that another account publishes under AWS's name, or whose root disk does not fit.

    The launch template enlarges the root disk by its device name. With a wrong name, nodes get a second disk,
    and a root that is too small for a container image. EC2 starts no node with a disk below the snapshot's.
    """
    expected = node_image_of(cluster)
    fix = (
        f"point {ami_parameter_of(cluster)} at an AMI whose root is {expected.root_device}"
        if expected.is_baked
        else f"use another region, or correct {expected.name} in jobs/words/images/aws_images.py"
    )
    if expected.owner and image.owner not in (None, expected.owner, AMAZON):
        return failed(
            f"{image.id} is of account {image.owner}, and AWS publishes {expected.name} as {expected.owner}",
            fix,
        )
    if image.root_device and image.root_device != expected.root_device:
        return failed(
            f"the root disk of {image.id} is {image.root_device}, and that of {expected.name} is "
            f"{expected.root_device}: nodes would get a second disk in place of a larger one",
            fix,
        )
    if cluster.root_volume_gib < image.root_gib:
        return failed(
            f"the root disk of {image.id} has {image.root_gib} GiB, and root_volume_gib is "
            f"{cluster.root_volume_gib}: EC2 would start no node",
            f"set root_volume_gib={image.root_gib} or more in clusters.py, and deploy",
        )
    return None


def versions(cluster: Cluster, facts: Facts) -> Verdict:
    """Check that driver, runtime and framework are of one lock, so that no node starts with a mismatch."""
    folder = locked_by(cluster)
    if not isinstance(cluster, NodeCluster):
        return ok(f"SageMaker's driver is AWS's own; the image is locked by {folder}")
    if not node_image_of(cluster).is_baked:
        return ok(f"AWS's own AMI ({node_image_of(cluster).name}), as new as AWS keeps it")
    if facts.lock is None:
        found = f"containers/images/{folder} has no lock.toml to hold the AMI against"
        return unknown(found)
    type_ = instance_type(cluster.instance_type)
    refused = unsupported(type_.accelerator.name, facts.lock) if type_.accelerator else ()
    if refused:
        return failed("; ".join(refused), f"lower it in containers/images/{folder}/lock.toml")
    family = family_of(type_)
    if family and family.driver not in facts.lock.host:
        return failed(
            f"the lock of {folder} has no {family.driver}, so that nothing drives {type_.name}",
            f"declare an image for {family.device} in clusters.py, or another instance_type",
        )
    return _manifest(cluster, facts, facts.lock)


def support(_cluster: Cluster, facts: Facts) -> Verdict:
    """Warn ninety days before a publisher ends support of a pinned version; count those without a date."""
    undated = sum(1 for each in facts.pinned if each.until is None)
    said = f"{undated} of {len(facts.pinned)} pinned versions have no day in print"
    soon = ending(facts.pinned, facts.today)
    if not soon:
        return ok(f"nothing pinned ends within {NOTICE.days} days; {said}")
    ends = "; ".join(
        f"{each.words} {'has ended on' if each.until < facts.today else 'ends on'} {each.until}"
        for each in soon
        if each.until
    )
    return warning(f"{ends}; {said}", "lock newer versions, then build or bake again: see docs/support.md")


def image(cluster: Cluster, facts: Facts) -> Verdict:
    if isinstance(cluster, SageMakerCluster):
        return ok(f"AWS's own, as the lock of {locked_by(cluster)} names it")
    if not isinstance(cluster, BatchCluster | SlurmCluster) or not runs_containers(cluster):
        return ok("needs none: jobs run on the machines themselves")
    if container_of(cluster) not in image_names(find_containers()):
        return ok(f"AWS's own, as the lock of {container_of(cluster)} names it")
    build = f"slipway image build {container_of(cluster)} --on {cluster.name}"
    if isinstance(facts.target, DamagedTarget | NewerRecord):
        return failed(facts.target.message, facts.target.hint)
    if isinstance(facts.pushed, Unanswered):
        return unanswered(facts.pushed)
    if facts.target is None or isinstance(facts.target, Unanswered):
        found = f"{cluster.name} is not deployed, so nothing names an image yet"
        return unknown(found, f"cdk deploy {cluster.name} && {build}")
    if not isinstance(facts.target, BatchTarget):
        return ok(f"jobs run directly on the machines of {cluster.name}; no container image is needed")
    tag = facts.target.image_tag
    if facts.image_tag is not None and facts.image_tag != tag:
        return failed(
            f"the job definition names {container_of(cluster)}:{tag}, but containers/ here has the tag "
            f"{facts.image_tag}",
            f"cdk deploy {cluster.name} && {build}",
        )
    return (
        ok(f"{container_of(cluster)}:{tag} is pushed")
        if facts.pushed
        else failed(f"{container_of(cluster)}:{tag}, which the job definition names, is not pushed", build)
    )


def _bake(cluster: NodeCluster, facts: Facts | None = None) -> str:
    """Return the commands that make the parameter name a fitting AMI; `facts` may know a deployed bakery."""
    image = image_of(ami_parameter_of(cluster))
    if image:
        bake = f"slipway image bake {image} --wait --region {cluster.region}"
        stands = facts is not None and facts.bakery in _SETTLED
        return bake if stands else f"cdk deploy {bakery_stack_name(image)} && {bake}"
    return (
        f"bake an AMI, then: aws ssm put-parameter --type String --overwrite "
        f"--name {ami_parameter_of(cluster)} --value ami-… --region {cluster.region}"
    )


def _manifest(cluster: NodeCluster, facts: Facts, lock: Lock) -> Verdict:
    manifest = facts.manifest
    if isinstance(manifest, Unanswered):
        return unanswered(manifest)
    name = manifest_parameter(ami_parameter_of(cluster))
    if manifest is None:
        return failed(f"{name} does not say what was baked into the AMI", _describe(cluster))
    differing = (
        _another_ami(cluster, facts, manifest)
        or mismatches(lock, manifest)
        or _another_lock(cluster, facts, manifest)
    )
    if differing:
        return failed(f"{name}: {'; '.join(differing)}", _bake(cluster))
    missing = missing_software(cluster.kind, instance_type(cluster.instance_type), manifest)
    if missing:
        return failed(
            f"{name}: the AMI has no {' and no '.join(missing)}, which nodes of {cluster.instance_type} need "
            f"in a cluster of kind {cluster.kind}",
            _bake(cluster),
        )
    note = " (a stand-in of the yard)" if manifest.get("stand_in") else ""
    return ok(f"the AMI holds what the lock of {locked_by(cluster)} requires{note}")


def _describe(cluster: NodeCluster) -> str:
    """Return how to write a manifest: by a bake, or for an AMI of your own as a copy of its parent's."""
    made_from, ami = cluster.ami_made_from, ami_parameter_of(cluster)
    if made_from is None:
        return _bake(cluster)
    parents = manifest_parameter(ami_parameter(made_from))
    return (
        f"copy {made_from}'s: aws ssm put-parameter --type String --overwrite --region {cluster.region} "
        f'--name {manifest_parameter(ami)} --value "$(aws ssm get-parameter --region {cluster.region} '
        f'--name {parents} --query Parameter.Value --output text)"'
    )


def _another_ami(cluster: NodeCluster, facts: Facts, manifest: Mapping[str, object]) -> tuple[str, ...]:
    """Return the problem if the manifest is another AMI's; an AMI of the user's own has its parent's."""
    described, booted = manifest.get("ami_id"), facts.parameter
    if cluster.ami_made_from or described is None or described == booted:
        return ()
    return (f"it describes {described}, and {ami_parameter_of(cluster)} names {booted}",)


def _another_lock(cluster: NodeCluster, facts: Facts, manifest: Mapping[str, object]) -> tuple[str, ...]:
    """Return the problem if locks differ in something other than versions: a package, a download's hash."""
    baked, here = manifest.get("lock_digest"), facts.machine_lock_digest
    if baked is None or here is None or baked == here:
        return ()
    image = booted_image(cluster)
    return (f"it was baked from lock {baked}, and containers/images/{image} here is {here}",)
