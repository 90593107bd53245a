"""The roles of a job: its job role, its execution role, and its instances' role.

Sources: ECS developer guide, "Task IAM role", "Task execution IAM role", "Container instance IAM role".
The yard does not make the agent's calls, so they are judged without a request.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from slipway.yard.errors import ApiError
from slipway.yard.moto_backends import moto_backend
from slipway.yard.permissions import deployed, roles
from slipway.yard.permissions.calls.asked import ActionNeed, arn
from slipway.yard.permissions.keys import RoleSession

TASKS = "ecs-tasks.amazonaws.com"
MACHINES = "ec2.amazonaws.com"
NO_IMAGE = "CannotPullECRContainerError: AccessDeniedException: {}"
UNREACHED = (
    "CannotPullContainerError: pull image manifest has been retried 5 time(s): failed to resolve {image}: "
    "failed to do request: dial tcp: i/o timeout"
)
NO_LOG = "ResourceInitializationError: failed to create Cloudwatch log stream: AccessDeniedException: {}"
NOT_ASSUMED = (
    "ECS was unable to assume the role '{}' that was provided for this task. Please verify that the role "
    "being passed has the proper trust relationship and permissions and that your IAM user has permissions "
    "to pass this role."
)
_PULL = ("BatchCheckLayerAvailability", "GetDownloadUrlForLayer", "BatchGetImage")
_JOIN = ("RegisterContainerInstance", "SubmitContainerStateChange", "SubmitTaskStateChange")
_WORK = ("Poll", "StartTelemetrySession")
_NEAREST = 1  # with this hop limit a container cannot reach the metadata service


def of_job(container: Mapping[str, Any], environment: Any, region: str, task: str) -> RoleSession | None:
    """Return the session whose credentials a container gets; None if it gets none."""
    resources = environment.compute_resources or {}
    if role := container.get("jobRoleArn"):
        session = roles.assume(str(role), TASKS, task)
    else:
        profile = _profile_role(str(resources.get("instanceRole", "")))
        if not profile or _hop_limit(resources, region) == _NEAREST:
            return None
        session = roles.assume(profile, MACHINES, f"i-{task[:17]}")
    return roles.in_vpc_of(session, (resources.get("subnets") or [""])[0], region)


def problem(container: Mapping[str, Any], group: str, stream: str, region: str) -> str:
    """Return in ECS's words why the task cannot be started; "" if it can."""
    for name in ("jobRoleArn", "executionRoleArn"):
        if role := container.get(name):
            try:
                roles.assume(str(role), TASKS, "check")
            except ApiError:
                return NOT_ASSUMED.format(role)
    starter = container.get("executionRoleArn")
    if not starter:
        return ""
    session = roles.assume(str(starter), TASKS, stream.rpartition("/")[2])
    if words := roles.refused(session, region, _pulls(str(container.get("image", "")), region)):
        return NO_IMAGE.format(words)
    into = arn("logs", region, f"log-group:{group}:log-stream:{stream}")
    writes = [ActionNeed(action=f"logs:{act}", resource=into) for act in ("CreateLogStream", "PutLogEvents")]
    if words := roles.refused(session, region, writes):
        return NO_LOG.format(words)
    return ""


def joins_ecs(environment: Any, region: str) -> bool:
    """Return True if the instances' role lets their agent register with ECS; an absent role is not judged."""
    role = _profile_role(str((environment.compute_resources or {}).get("instanceRole", "")))
    if not role:
        return True
    try:
        session = roles.assume(role, MACHINES, "i-joins")
    except ApiError:
        return False
    cluster = f"{environment.name}_Batch"
    in_cluster = arn("ecs", region, f"cluster/{cluster}")
    as_instance = arn("ecs", region, f"container-instance/{cluster}/i")
    needs = [
        ActionNeed(action="ecs:DiscoverPollEndpoint"),
        *(ActionNeed(action=f"ecs:{act}", resource=in_cluster) for act in _JOIN),
        *(ActionNeed(action=f"ecs:{act}", resource=as_instance) for act in _WORK),
    ]
    return not roles.refused(session, region, needs)


def _pulls(image: str, region: str) -> Iterator[ActionNeed]:
    """Yield the needs to pull an image from ECR: a token, and access to the repository; none for others."""
    host, _, rest = image.partition("/")
    if ".dkr.ecr." not in host:
        return
    repository = arn("ecr", region, f"repository/{rest.partition('@')[0].partition(':')[0]}")
    yield ActionNeed(action="ecr:GetAuthorizationToken")
    for act in _PULL:
        yield ActionNeed(action=f"ecr:{act}", resource=repository)


def _profile_role(profile: str) -> str:
    found: Any = moto_backend("iam").instance_profiles
    for one in list(found.values()):
        if profile in (one.name, one.arn) and one.roles:
            return str(one.roles[0].arn)
    return profile if profile and deployed.role(profile) else ""


def _hop_limit(resources: Mapping[str, Any], region: str) -> int | None:
    """Return the hop limit in the environment's launch template; None if it leaves that to the AMI."""
    named = resources.get("launchTemplate") or {}
    wanted = {named.get("launchTemplateId"), named.get("launchTemplateName")} - {None}
    for template in list(moto_backend("ec2", region).launch_templates.values()):
        if wanted & {template.id, template.name}:
            options = template.latest_version().data.get("MetadataOptions") or {}
            return int(options.get("HttpPutResponseHopLimit") or 0) or None
    return None
