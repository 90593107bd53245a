"""cdk-nag fails synthesis on every finding that is not accepted, and every acceptance is needed."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import aws_cdk as cdk
import pytest
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from cdk_nag import AwsSolutionsChecks, NIST80053R5Checks, PCIDSS321Checks

from slipway.infra.build.bakeries import build_bakeries
from slipway.infra.build.clusters import BUILDERS
from slipway.infra.build.parts import NOTHING_GIVEN
from slipway.infra.clusters import MACHINE_IMAGES
from slipway.infra.declare.cdk_json import feature_flags
from slipway.infra.verify import packs
from slipway.infra.verify.gates import synthesis_findings
from slipway.infra.verify.nag import ACCEPTED, Accepted, add_nag_checks, is_accepted
from slipway.infra.verify.packs import PACKS, add_packs, is_accepted_in_pack
from tests.infra.synthesis import CLUSTER, MPI_CLUSTER, SAGEMAKER_CLUSTER, SLURM_CLUSTER

Finding = tuple[str, str]  # its id and the path of its construct


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> list[Finding]:
    """Return every finding of the packs without acceptances."""
    folder = tmp_path_factory.mktemp("bare")
    app = cdk.App(outdir=str(folder), context=dict(feature_flags()))
    short_lived = replace(CLUSTER, name="trial", keep_data=False)
    gpus = replace(SLURM_CLUSTER, name="gpus", instance_type="p5.48xlarge", machine_image=None)
    for cluster in (CLUSTER, short_lived, MPI_CLUSTER, SLURM_CLUSTER, gpus, SAGEMAKER_CLUSTER):
        BUILDERS[type(cluster)](app, cluster, NOTHING_GIVEN)
    build_bakeries(app, MACHINE_IMAGES)
    cdk.Validations.of(app).add_plugins(AwsSolutionsChecks(app), NIST80053R5Checks(app), PCIDSS321Checks(app))
    with pytest.raises(RuntimeError, match="ValidationFailed"):
        app.synth()
    report = json.loads((folder / "validation-report.json").read_text(encoding="utf-8"))
    return [
        (violation["ruleName"], construct["constructPath"])
        for plugin in report["pluginReports"]
        for violation in plugin["violations"]
        for construct in violation["violatingConstructs"]
    ]


@pytest.mark.parametrize(
    ("names", "accepted", "accepts"),
    [(("AwsSolutions",), ACCEPTED, is_accepted), (tuple(PACKS), packs.ACCEPTED, is_accepted_in_pack)],
    ids=["AwsSolutions", "NIST and PCI"],
)
def test_every_accepted_finding_is_one_that_cdk_nag_has_and_says_why(
    found: list[Finding],
    names: tuple[str, ...],
    accepted: tuple[Accepted, ...],
    accepts: Callable[..., bool],
) -> None:
    own = [finding for finding in found if finding[0].startswith(names)]
    assert {finding[0].partition("-")[0] for finding in own} == set(names)
    for each in accepted:
        assert any(accepts(*finding, accepted=(each,)) for finding in own), f"nothing needs {each}"
        assert len(each.reason) > 20
    assert [finding for finding in own if not accepts(*finding)] == []


def test_a_finding_of_a_pack_that_nobody_accepted_fails_synthesis(tmp_path: Path) -> None:
    app = cdk.App(outdir=str(tmp_path), context=dict(feature_flags()))
    s3.CfnBucket(cdk.Stack(app, "Stack"), "Open")
    add_packs(app)
    with pytest.raises(RuntimeError, match="ValidationFailed"):
        app.synth()
    lines = list(synthesis_findings(tmp_path))
    for pack in PACKS:
        assert any(pack in line and "Stack/Open" in line for line in lines), pack


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
