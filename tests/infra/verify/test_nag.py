"""cdk-nag fails synthesis on everything that is not accepted, and what is accepted is needed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import aws_cdk as cdk
import pytest
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from cdk_nag import AwsSolutionsChecks

from slipway.infra.build.bakeries import build_bakeries
from slipway.infra.build.clusters import BUILDERS
from slipway.infra.build.parts import NOTHING_GIVEN
from slipway.infra.clusters import MACHINE_IMAGES
from slipway.infra.declare.cdk_json import feature_flags
from slipway.infra.verify.gates import synthesis_findings
from slipway.infra.verify.nag import ACCEPTED, add_nag_checks, is_accepted
from tests.infra.synthesis import CLUSTER, MPI_CLUSTER, SAGEMAKER_CLUSTER, SLURM_CLUSTER


def findings_of_cdk_nag(folder: Path) -> Iterator[tuple[str, str]]:
    """Every finding of the bare pack, as (id, path of the construct)."""
    app = cdk.App(outdir=str(folder), context=dict(feature_flags()))
    short_lived = replace(CLUSTER, name="trial", keep_data=False)
    gpus = replace(SLURM_CLUSTER, name="gpus", instance_type="p5.48xlarge", machine_image=None)
    for cluster in (CLUSTER, short_lived, MPI_CLUSTER, SLURM_CLUSTER, gpus, SAGEMAKER_CLUSTER):
        BUILDERS[type(cluster)](app, cluster, NOTHING_GIVEN)
    build_bakeries(app, MACHINE_IMAGES)
    cdk.Validations.of(app).add_plugins(AwsSolutionsChecks(app))
    with pytest.raises(RuntimeError, match="ValidationFailed"):
        app.synth()
    report = json.loads((folder / "validation-report.json").read_text(encoding="utf-8"))
    for plugin in report["pluginReports"]:
        for violation in plugin["violations"]:
            for construct in violation["violatingConstructs"]:
                yield violation["ruleName"], construct["constructPath"]


def test_every_accepted_finding_is_one_that_cdk_nag_has_and_says_why(tmp_path: Path) -> None:
    found = list(findings_of_cdk_nag(tmp_path))
    assert found
    for each in ACCEPTED:
        alone = [finding for finding in found if is_accepted(*finding, accepted=(each,))]
        assert alone, f"nothing needs {each}"
        assert len(each.reason) > 20
    assert all(is_accepted(*finding) for finding in found)


def test_a_finding_that_nobody_accepted_fails_synthesis(tmp_path: Path) -> None:
    app = cdk.App(outdir=str(tmp_path), context=dict(feature_flags()))
    stack = cdk.Stack(app, "Stack")
    s3.CfnBucket(stack, "Open")
    add_nag_checks(app, [stack])
    with pytest.raises(RuntimeError, match="ValidationFailed"):
        app.synth()
    assert any("AwsSolutions-S1" in line and "Stack/Open" in line for line in synthesis_findings(tmp_path))


def test_a_new_wildcard_in_an_accepted_policy_fails_synthesis(tmp_path: Path) -> None:
    app = cdk.App(outdir=str(tmp_path), context=dict(feature_flags()))
    built = BUILDERS[type(CLUSTER)](app, CLUSTER, NOTHING_GIVEN)
    policy = (
        app.node.find_child("dl1").node.find_child("Access").node.find_child("Job").node.find_child("Policy")
    )
    assert isinstance(policy, iam.ManagedPolicy)
    policy.add_statements(iam.PolicyStatement(actions=["s3:GetObject"], resources=["*"]))
    add_nag_checks(app, built.stacks)
    with pytest.raises(RuntimeError, match="ValidationFailed"):
        app.synth()
    assert any("IAM5[Resource::*]" in line for line in synthesis_findings(tmp_path))


@pytest.mark.parametrize(
    ("finding", "path"),
    [
        ("AwsSolutions-IAM5[Action::s3:*]", "dl1/Access/Job/Policy/Resource"),
        ("AwsSolutions-IAM5[Resource::*]", "dl1/Access/Job/Policy/Resource"),
        ("AwsSolutions-IAM5[Resource::<Data.Arn>/datasets/*]", "dl1/Access/Node/Policy/Resource"),
        ("AwsSolutions-IAM5[Resource::<Data.Arn>/builds/*]", "dl1/Access/Job/Policy/Resource"),
        ("AwsSolutions-IAM4[Policy::arn:aws:iam::aws:policy/AdministratorAccess]", "dl1/Access/Job/Resource"),
        ("AwsSolutions-S10", "dl1-storage/Data/Resource"),
    ],
)
def test_nothing_else_is_accepted(finding: str, path: str) -> None:
    assert not is_accepted(finding, path)
