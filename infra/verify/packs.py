"""Runs cdk-nag's packs for NIST 800-53 revision 5 and PCI DSS 3.2.1, with each finding that we accept.

`python -m slipway.infra.verify` runs them on the clusters that we ship. Findings are the same wherever a
pattern is used, so a user's own synthesis does not have to wait for them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence

import aws_cdk as cdk
from cdk_nag import AwsSolutionsChecks, NIST80053R5Checks, PCIDSS321Checks

from slipway.infra.declare.cdk_json import feature_flags
from slipway.infra.declare.machine_images import MachineImage
from slipway.infra.declare.types import Cluster
from slipway.infra.verify.nag import Accepted, kept_violations

PACKS: Mapping[str, str] = {"NIST.800.53.R5": "NIST 800-53 r5", "PCI.DSS.321": "PCI DSS 3.2.1"}

# Wildcards that a policy cannot avoid: rules/permissions.py allows * only for such actions.
WILDCARDS: Mapping[str, str] = {
    "`*`, as its actions take no resource": r"\[Resource::\*\]$",
    "objects below a prefix": r"\[Resource::(<[^>]*Arn>|<[^>]*>|arn:[^:]*:s3:::[^:]*)/[^:]*\*[^:]*\]$",
}

_BUCKETS = r"(Data|Logs)/(AccessLogs|Resource)(/Resource)?"

ACCEPTED = (
    Accepted(
        rule="S3BucketReplicationEnabled",
        path=_BUCKETS,
        reason="a copy in a second bucket doubles the price of data and checkpoints; versions of 30 days "
        "keep what is overwritten, and a cluster takes a replicated bucket that is given to it",
    ),
    Accepted(
        rule="S3BucketLoggingEnabled",
        path=r"Data/Resource/Resource",
        reason="with keep_data=False only: access logs keep coming, and their bucket could never be deleted",
    ),
    Accepted(
        rule="S3DefaultEncryptionKMS",
        path=r"Data/AccessLogs/Resource|Logs/Resource/Resource",
        reason="S3 delivers access logs to no bucket that is encrypted with a key of KMS",
    ),
    Accepted(
        rule="EFSInBackupPlan",
        path=r"Files/Resource",
        reason="automatic backups of AWS Backup are on where data is kept; the rule looks for a plan alone",
    ),
    Accepted(
        rule="EC2RestrictedCommonPorts",
        path=r"Nodes/FromNodes",
        reason="EFA needs all traffic between members of one security group, and they are the only source",
    ),
    Accepted(
        rule="SecretsManagerRotationEnabled",
        path=r"Secret/Resource",
        reason="nodes derive their trust from it at boot, so rotation would tear a running cluster apart; it "
        "goes with its cluster, and the next one has another",
    ),
    Accepted(
        rule="VPCNoUnrestrictedRouteToIGW",
        path=r"Vpc/PublicDefaultRoute",
        reason="machines that are baked fetch packages from the internet; their group lets nothing in",
    ),
    Accepted(
        rule="VPCDefaultSecurityGroupClosed",
        path=r"Vpc/Resource",
        reason="AWS Batch puts interfaces of multi-node tasks into it; emptying it takes a function",
    ),
    Accepted(
        rule="CodeBuildProjectSourceRepoUrl",
        path=r"Project/Resource",
        reason="the source is an archive in the cluster's own bucket, so it signs in at no repository",
    ),
)


class NistChecks(NIST80053R5Checks):
    """Runs the pack, and leaves out what ACCEPTED names."""

    def __init__(self, app: cdk.App, stacks: Sequence[cdk.Stack]) -> None:
        super().__init__(app)
        self._stacks = stacks

    def validate(self, context: cdk.IPolicyValidationContext) -> cdk.PolicyValidationPluginReport:
        return kept_violations(self, self._stacks, is_accepted_in_pack)


class PciChecks(PCIDSS321Checks):
    """Runs the pack, and leaves out what ACCEPTED names."""

    def __init__(self, app: cdk.App, stacks: Sequence[cdk.Stack]) -> None:
        super().__init__(app)
        self._stacks = stacks

    def validate(self, context: cdk.IPolicyValidationContext) -> cdk.PolicyValidationPluginReport:
        return kept_violations(self, self._stacks, is_accepted_in_pack)


def add_packs(app: cdk.App) -> None:
    """Fail synthesis on every finding of the packs that is not accepted here."""
    stacks = [stack for stack in app.node.children if isinstance(stack, cdk.Stack)]
    cdk.Validations.of(app).add_plugins(NistChecks(app, stacks), PciChecks(app, stacks))


def is_accepted_in_pack(finding: str, construct_path: str, accepted: Sequence[Accepted] = ACCEPTED) -> bool:
    """Match a finding as a pack prints it, NIST.800.53.R5-RULE, and its path from the stack."""
    pack, _, rule = finding.partition("-")
    path = construct_path.partition("/")[2]
    return pack in PACKS and any(
        each.rule == rule and re.fullmatch(each.path, path) is not None for each in accepted
    )


def count_findings(clusters: Sequence[Cluster], images: Sequence[MachineImage]) -> Counter[tuple[str, str]]:
    """Count what the bare packs find, accepted or not, by stack and pack, and by kind of wildcard."""
    from slipway.infra.app import build

    app = cdk.App(context=dict(feature_flags()))
    build(app, clusters, images, gated=False)
    counts: Counter[tuple[str, str]] = Counter()
    for pack in (AwsSolutionsChecks(app), NIST80053R5Checks(app), PCIDSS321Checks(app)):
        for stack in app.node.children:
            if isinstance(stack, cdk.Stack):
                for found in pack.validate_scope(stack).violations:
                    name = found.rule_name.partition("-")[0]
                    counts[stack.stack_name, name] += len(found.violating_resources)
                    for kind, pattern in WILDCARDS.items():
                        if re.search(pattern, found.rule_name):
                            counts[stack.stack_name, kind] += len(found.violating_resources)
    return counts
