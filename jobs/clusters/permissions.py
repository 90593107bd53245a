"""Writes the IAM policy that somebody needs on their own machine: one for each purpose and kind of cluster.

A new call of a command is an action in permissions.csv: for which purposes and kinds of cluster, on which
resources (SERVICE:RESOURCE with {names} of `PolicyScope`), under which of CONDITIONS, and what has to happen
before a command calls it, unless it always does. A test in the yard holds commands and rows together.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from types import MappingProxyType

from slipway.jobs.words.errors import SlipwayError
from slipway.jobs.words.names import (
    CLUSTER_TAG,
    PARTS,
    TARGET_TAG,
    cap_alarm_name,
    derived_name,
    idle_alarm_name,
    owner_parameter,
    stack_name,
)
from slipway.jobs.words.targets import KINDS, parameter_name

# What each policy lets a person do.
PURPOSES: Mapping[str, str] = MappingProxyType(
    {
        "read": "see jobs, logs, reports and prices: status, logs, explain, report, estimate, calibrate",
        "submit": "run jobs and watch them: run, submit, status, logs, cancel, cluster upload",
        "ssh": "enter a node: ssh",
        "images": "build container images and bake AMIs: image build, image bake, image list",
        "deploy": "deploy: preflight, cluster quota, up, cdk deploy",
        "destroy": "destroy: cluster empty, cluster destroy",
        "bootstrap": "make the CDK's own stack, once in an account and region: cdk bootstrap",
        "leftovers": "list and delete what a destroyed cluster kept: cluster leftovers",
    }
)
ANY = "*"
ALL = "all"
LONGEST = 6144  # characters of a managed policy, white space not counted (IAM user guide, quotas)
_CFN_LENGTH = 24  # CloudFormation shortens a stack's name at most to this in names of buckets and roles
CONDITIONS: Mapping[str, Mapping[str, Mapping[str, str]]] = {
    "": {},
    "of-cluster": {"StringEquals": {f"aws:ResourceTag/{CLUSTER_TAG}": "{cluster}"}},
    "own-node": {"StringEquals": {f"ssm:resourceTag/{CLUSTER_TAG}": "{cluster}"}},
    "own-job": {"StringEquals": {f"aws:ResourceTag/{TARGET_TAG}": "{cluster}"}},
    "new-job": {"StringEquals": {f"aws:RequestTag/{TARGET_TAG}": "{cluster}"}},
    "for-quotas": {"StringEquals": {"iam:AWSServiceName": "servicequotas.amazonaws.com"}},
    "pass-to-sagemaker": {"StringEquals": {"iam:PassedToService": "sagemaker.amazonaws.com"}},
    "pass-to-tasks": {"StringEquals": {"iam:PassedToService": "ecs-tasks.amazonaws.com"}},
    "through-s3": {
        "StringEquals": {"kms:ViaService": "s3.{region}.amazonaws.com"},
        "StringLike": {"kms:EncryptionContext:aws:s3:arn": "arn:aws:s3:::{bucket}"},
    },
}


class NothingToAllow(SlipwayError):
    """The commands of a purpose do nothing on this kind of cluster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    purposes: frozenset[str]
    kinds: frozenset[str]
    actions: tuple[str, ...]
    resources: tuple[str, ...]
    condition: str
    when: str  # what has to happen before a command calls it; "": it always does


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyScope:
    """Says for which cluster a policy is."""

    cluster: str
    kind: str
    region: str
    account: str
    image: str  # the machine image that is baked for its nodes; "" if none is

    @property
    def names(self) -> Mapping[str, str]:
        storage = stack_name(self.cluster, "storage")
        return {
            "account": self.account,
            "bucket": f"{storage[:_CFN_LENGTH]}-data*",
            "build": derived_name("build-project", self.cluster, "images"),
            "cap": cap_alarm_name(self.cluster),
            "cluster": self.cluster,
            "group": derived_name("node-group", self.cluster),
            "idle": idle_alarm_name(self.cluster),
            "image": self.image,
            "logs": stack_name(self.cluster, "observability"),
            "network": stack_name(self.cluster, "network"),
            "owner": owner_parameter(self.cluster),
            "queue": derived_name("batch", self.cluster),
            "region": self.region,
            "role": self.cluster[:_CFN_LENGTH],
            "storage": storage,
            "target": parameter_name(self.cluster),
        }

    def arn(self, resource: str) -> str:
        """Return the ARN of a resource of permissions.csv."""
        service, _, rest = resource.format_map(self.names).partition(":")
        if resource == ANY:
            return ANY
        if service == "s3":
            return f"arn:aws:s3:::{rest}"
        region = "" if service == "iam" else self.region
        account = "" if rest.startswith(("document/AWS-", "parameter/aws/")) else self.account
        return f"arn:aws:{service}:{region}:{account}:{rest}"


@lru_cache(maxsize=1)
def grants() -> Sequence[Grant]:
    text = files(__package__).joinpath("permissions.csv").read_text(encoding="utf-8")
    names = ("{cluster}", *(f"{{cluster}}-{part}" for part in sorted(PARTS)))
    stacks = tuple(f"cloudformation:stack/{name}/*" for name in names)
    return [
        Grant(
            purposes=frozenset(row["purposes"].split()),
            kinds=frozenset(KINDS if row["kinds"] == ALL else row["kinds"].split()),
            actions=tuple(row["actions"].split()),
            resources=stacks if row["resources"] == "{stacks}" else tuple(row["resources"].split()),
            condition=row["condition"],
            when=row["when"],
        )
        for row in csv.DictReader(text.splitlines())
    ]


def grants_for(purpose: str, place: PolicyScope) -> Sequence[Grant]:
    """Return the rows for a purpose; refuse if there are none."""
    found = [
        grant
        for grant in grants()
        if purpose in grant.purposes
        and place.kind in grant.kinds
        and (place.image or "{image}" not in "".join(grant.resources))
    ]
    if not found:
        useful = {name for grant in grants() if place.kind in grant.kinds for name in grant.purposes}
        raise NothingToAllow(
            f"a {place.kind} cluster such as {place.cluster} needs no permissions for {purpose}",
            hint=f"its purposes are {', '.join(name for name in PURPOSES if name in useful)}",
        )
    return found


def policy(purpose: str, place: PolicyScope) -> Mapping[str, object]:
    """Return the policy's document; rows with the same resources and condition are one statement."""
    merged: dict[tuple[tuple[str, ...], str], set[str]] = {}
    for grant in grants_for(purpose, place):
        merged.setdefault((grant.resources, grant.condition), set()).update(grant.actions)
    statements = []
    for (resources, condition), actions in merged.items():
        filled = {
            operator: {key: value.format_map(place.names) for key, value in wanted.items()}
            for operator, wanted in CONDITIONS[condition].items()
        }
        statements.append(
            {
                "Effect": "Allow",
                "Action": sorted(actions),
                "Resource": [place.arn(resource) for resource in resources],
                **({"Condition": filled} if filled else {}),
            }
        )
    return {"Version": "2012-10-17", "Statement": statements}
