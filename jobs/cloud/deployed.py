"""Finds what is deployed: targets, stacks and running nodes. It only asks AWS, and changes nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from slipway.jobs.cloud.aws import Unanswered, ask, ask_all, no_answer, own_region, reader
from slipway.jobs.words.errors import SlipwayError, did_you_mean
from slipway.jobs.words.installation import NoProject, find_project
from slipway.jobs.words.names import (
    CLUSTER_TAG,
    NAMES_ALLOWED,
    PARTS,
    is_cluster_name,
    owner_parameter,
    stack_name,
)
from slipway.jobs.words.targets import (
    PARAMETER_ROOT,
    BatchTarget,
    DamagedTarget,
    Target,
    decode_target,
    parameter_name,
)
from slipway.jobs.words.text import NewerRecord, printable

_GONE = "DELETE_COMPLETE"
_NO_IMAGE = ("ImageNotFoundException", "RepositoryNotFoundException")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeployedStack:
    name: str
    status: str
    resources: Mapping[str, int] | None  # count by type; None: AWS did not say


def find_targets(region: str | None) -> tuple[list[Target], list[DamagedTarget | NewerRecord]]:
    found: list[Target] = []
    unread: list[DamagedTarget | NewerRecord] = []
    for each in [region] if region else _regions():
        pages = reader("ssm", each).get_paginator("get_parameters_by_path").paginate(Path=PARAMETER_ROOT)
        for parameter in (parameter for page in pages for parameter in page["Parameters"]):
            try:
                found.append(decode_target(parameter["Value"], parameter=parameter["Name"]))
            except (DamagedTarget, NewerRecord) as error:
                unread.append(error)
    return found, unread


class NotDeployed(SlipwayError):
    """No deployed cluster has this name; one may be declared."""

    is_declared = False


def find_target_by_name(cluster: str, region: str | None) -> Target:
    """Find a target in the region; by default first in your own, then where clusters are declared."""
    if not is_cluster_name(cluster):
        raise NotDeployed(
            f"'{printable(cluster)}' cannot be the name of a cluster; allowed are {NAMES_ALLOWED}",
            hint=did_you_mean(
                cluster, _declared(), otherwise="slipway cluster targets lists what is deployed"
            ),
        )
    answers = (find_target(cluster, each) for each in ([region] if region else _likely_regions()))
    said: list[Unanswered] = []
    for answer in answers:
        if isinstance(answer, Unanswered):
            said.append(answer)
        elif answer is not None:
            return answer
    if said:
        raise no_answer(said[0], "slipway cluster targets")
    missing = NotDeployed(
        f"no target is called '{cluster}'{f' in {region}' if region else ''}",
        hint=_suggest(cluster, region),
    )
    missing.is_declared = cluster in _declared()
    raise missing


def find_target(cluster: str, region: str | None) -> Target | Unanswered | None:
    text = ask_parameter(parameter_name(cluster), region)
    return decode_target(text, parameter=parameter_name(cluster)) if isinstance(text, str) else text


def ask_parameter(name: str, region: str | None) -> str | Unanswered | None:
    """Return the value of a parameter of SSM; None if there is none of this name."""
    answer = ask(reader("ssm", region), "GetParameter", Name=name)
    if isinstance(answer, Unanswered):
        return None if answer.code == "ParameterNotFound" else answer
    return str(answer["Parameter"]["Value"])


def find_digest(target: BatchTarget, tag: str) -> str | Unanswered | None:
    """Return the digest of the image that is pushed under the tag; None if there is none."""
    return find_digest_in(target, target.repository_uri.partition("/")[2], {"imageTag": tag})


def find_digest_in(
    target: BatchTarget, repository: str, image: Mapping[str, str], registry: str = ""
) -> str | Unanswered | None:
    """Return the digest of a repository's image, given its imageTag or imageDigest.

    Another account's registry answers those who may only pull with nothing but the image itself.
    """
    is_foreign = registry not in ("", target.account)
    answer = ask(
        reader("ecr", target.region),
        "BatchGetImage" if is_foreign else "DescribeImages",
        registryId=registry if is_foreign else target.account,
        repositoryName=repository,
        imageIds=[dict(image)],
    )
    if isinstance(answer, Unanswered):
        return None if answer.code in _NO_IMAGE else answer
    if is_foreign:
        return next((str(found["imageId"]["imageDigest"]) for found in answer["images"]), None)
    return str(answer["imageDetails"][0]["imageDigest"])


def find_stacks(cluster: str, region: str) -> tuple[DeployedStack, ...] | Unanswered:
    """Find the stacks by name, not by tag: a stack whose creation failed has no tags."""
    cloudformation = reader("cloudformation", region)
    answer = ask_all(cloudformation, "DescribeStacks", "Stacks")
    if isinstance(answer, Unanswered):
        return answer
    names = {stack_name(cluster), *(stack_name(cluster, part) for part in PARTS)}
    own = [stack for stack in answer if stack["StackName"] in names and stack["StackStatus"] != _GONE]
    found = []
    for stack in own:
        name = stack["StackName"]
        counts: Mapping[str, int] | None = None
        listed = ask_all(cloudformation, "ListStackResources", "StackResourceSummaries", StackName=name)
        if not isinstance(listed, Unanswered):
            types = (each["ResourceType"] for each in listed if each["ResourceStatus"] != _GONE)
            counts = dict(sorted(Counter(types).items()))
        found.append(DeployedStack(name=name, status=stack["StackStatus"], resources=counts))
    return tuple(found)


def count_running_nodes(cluster: str, region: str) -> int | Unanswered:
    """Count the running nodes, with the pending ones, which are billed from their start."""
    filters = [
        {"Name": f"tag:{CLUSTER_TAG}", "Values": [cluster]},
        {"Name": "instance-state-name", "Values": ["pending", "running"]},
    ]
    answer = ask_all(reader("ec2", region), "DescribeInstances", "Reservations", Filters=filters)
    if isinstance(answer, Unanswered):
        return answer
    return sum(len(reservation["Instances"]) for reservation in answer)


def _likely_regions() -> Iterator[str | None]:
    """Yield your own region first; read the declarations only if the target is not there."""
    own = own_region()
    if own:
        yield own
    yield from (region for region in _regions() if region and region != own)


def _suggest(cluster: str, region: str | None) -> str:
    if cluster in _declared():
        return f"it is declared: slipway up {cluster}"
    names = [target.name for target in find_targets(region)[0]]
    deployed = (
        f"deployed are {', '.join(names)}"
        if names
        else "deploy a cluster first: `slipway cluster list` lists the declared ones"
    )
    return did_you_mean(cluster, names, otherwise=deployed)


def _regions() -> Sequence[str | None]:
    """Return the regions of the declared clusters; without a project, the credentials' region."""
    return sorted(set(_declared().values())) or [None]


def _declared() -> Mapping[str, str]:
    """Return the regions of the declared clusters by name; an empty mapping without a project."""
    from slipway.infra.declare.declared import declared_clusters  # not needed if a region was named

    try:
        return {cluster.name: cluster.region for cluster in declared_clusters()}
    except NoProject:
        return {}


# Finds whose cluster a deployed one is, if several projects share an account.


def ask_owner(cluster: str, region: str) -> str | Unanswered | None:
    """Return the project that deployed the cluster; None if it was deployed by none with a name."""
    return ask_parameter(owner_parameter(cluster), region)


def refuse_foreign(cluster: str, region: str) -> None:
    """Refuse to work on a cluster that another project deployed; accept it if AWS does not answer."""
    owner = ask_owner(cluster, region)
    if not isinstance(owner, str):
        return
    project = find_project()
    if owner != project.name:
        raise SlipwayError(
            f"cluster {cluster} belongs to project {owner}, and {project.folder} is "
            f"{f'project {project.name}' if project.name else 'no project with a name'}",
            hint=f"work in the folder of {owner}: its cdk.json says so",
        )
