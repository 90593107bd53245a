"""scripts/acceptance has the right price and report, and leaves other things alone; no account is used."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import click
import pytest

from scripts.real_account import price
from scripts.real_account.__main__ import chosen_claims, main
from scripts.real_account.account import Evidence
from scripts.real_account.all_claims import CLAIMS, NAMES, NOTHING_LEFT, promises, write_report
from scripts.real_account.claims import ClaimOutcome, Proof
from scripts.real_account.clusters import BY_NAME, CLUSTERS, MPI, SLURM, STAGES
from scripts.real_account.price import at_most, total
from scripts.real_account.project.clusters import CLUSTERS as WITHOUT_A_BAKE
from scripts.real_account.trying import open_journal
from slipway.infra.declare.declared import declared_clusters
from slipway.infra.declare.node_images import booted_image
from slipway.infra.declare.types import NodeCluster

ACCOUNT, EMAIL = "123456789012", "team@slipway.test"
LIMIT_USD, HOURS = 30.0, 4.0  # the command's default
CONTROLLER_USD_PER_HOUR = 1.0  # any number, for the sum: we do not know AWS's price
# The AMIs of nodes. The dl1 cluster boots the AMI of its claim, on a type that would boot AWS's.
EXPECTED_AMIS = {"dl1": "gaudi-ecs", "acceptance-cpu": "ecs", "acceptance-gpu": "ecs-nvidia"}
SEEN = Proof(
    outcome=ClaimOutcome.CONFIRMED,
    seen=f"arn:aws:sns:us-east-1:{ACCOUNT}:a | told {EMAIL}",
    evidence=(Evidence(what="sns:Publish", request_id="0b6cb4a9", at="2026-11-22T10:00:00+00:00"),),
)


@pytest.fixture
def synthesis_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make templates in this process, because five processes take seconds; test_standing.py starts some."""
    from slipway.infra.declare.declared import load
    from slipway.infra.templates import templates

    declared = {cluster.name: cluster for cluster in (*load({}), *WITHOUT_A_BAKE)}
    monkeypatch.setattr(price, "declared_templates", lambda name, _folder: templates(declared[name]))


@pytest.mark.cdk
@pytest.mark.usefixtures("synthesis_here")
def test_all_of_it_costs_less_than_the_limit_and_every_price_is_known() -> None:
    images = [cluster.image for cluster in CLUSTERS if cluster.image]
    lines = at_most(CLUSTERS, images, "us-east-1", HOURS, CONTROLLER_USD_PER_HOUR)
    assert all(line.usd for line in lines), lines
    assert 5 < total(lines) < LIMIT_USD


@pytest.mark.cdk
@pytest.mark.usefixtures("synthesis_here")
def test_slurm_is_not_tried_at_a_price_that_nobody_told() -> None:
    lines = at_most((SLURM,), (SLURM.baked,), "us-east-1", HOURS)
    assert [line.what for line in lines if line.usd is None] == ["trn1: its small controller, for 4 hours"]
    chosen = {claim.name for claim in chosen_claims(None, has_controller_price=False)}
    assert chosen == set(NAMES) - {"bake-slurm", "deploy-slurm", "job-slurm", "idle-slurm", NOTHING_LEFT}
    assert len(chosen_claims(None, has_controller_price=True)) == len(CLAIMS)


@pytest.mark.cdk
@pytest.mark.usefixtures("synthesis_here")
def test_a_region_without_prices_is_unknown_and_not_free() -> None:
    assert None in [line.usd for line in at_most((MPI,), (), "eu-west-1", HOURS)]


@pytest.mark.parametrize(
    "folder", sorted({cluster.folder for cluster in CLUSTERS}), ids=lambda path: path.name
)
def test_the_clusters_of_the_hour_can_be_declared(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    own = [cluster for cluster in CLUSTERS if cluster.folder == folder]
    words = [word for cluster in own for word in cluster.overrides(EMAIL)]
    declared = {each.name: each for each in declared_clusters([word for word in words if word != "-c"])}
    assert {cluster.name for cluster in own} <= declared.keys()
    booted = {
        name: booted_image(each)
        for name, each in declared.items()
        if name in EXPECTED_AMIS and isinstance(each, NodeCluster)
    }
    assert booted
    assert booted.items() <= EXPECTED_AMIS.items()


def test_a_folder_that_is_told_is_one_of_the_callers(tmp_path: Path) -> None:
    script = Path(__file__).resolve().parents[2] / "scripts" / "acceptance"
    told = [str(script), "--email", EMAIL, "--state", "here", "--region", "nowhere"]
    no_network = {**os.environ, "AWS_EC2_METADATA_DISABLED": "true"}
    done = subprocess.run(told, cwd=tmp_path, env=no_network, capture_output=True, text=True, check=False)
    assert "AWS has no region 'nowhere'" in done.stderr
    assert (tmp_path / "here").is_dir()


@pytest.mark.parametrize("option", ["--hours", "--limit-usd", "--controller-usd-per-hour"])
@pytest.mark.parametrize("value", ["nan", "inf", "-1", "0"])
def test_a_bound_that_bounds_nothing_is_refused(option: str, value: str) -> None:
    with pytest.raises(click.BadParameter, match=r"x>0|finite"):
        main.main(["--email", EMAIL, option, value], standalone_mode=False)


def test_a_report_can_be_published_and_each_claim_checked(tmp_path: Path) -> None:
    path = tmp_path / "confirmed.md"
    secrets = (ACCOUNT, EMAIL)
    write_report(path, {"alarm": SEEN}, region="us-east-1", is_yard=False, secrets=secrets)
    text = path.read_text(encoding="utf-8")
    assert text.startswith("# Confirmed on AWS\n")
    assert not [secret for secret in secrets if secret in text]
    assert "| `sns:Publish` | 0b6cb4a9 | 2026-11-22T10:00:00+00:00 |" in text
    assert text.count("| not tried | it was not asked for |") == len(NAMES) - 1
    assert "arn:aws:sns:us-east-1:…:a \\| told …" in text


def test_what_the_yard_showed_is_not_called_confirmed_on_aws(tmp_path: Path) -> None:
    path = tmp_path / "confirmed.md"
    write_report(path, {"alarm": SEEN}, region="us-east-1", is_yard=True, secrets=())
    text = path.read_text(encoding="utf-8")
    assert text.startswith("# Tried in the yard\n")
    assert "it proves nothing about AWS" in text


def test_a_journal_survives_and_is_never_of_another_account(tmp_path: Path) -> None:
    path = tmp_path / "journal.json"
    journal = open_journal(path, ACCOUNT, "us-east-1")
    journal.begin("mpi", ["slipway-bakery-cpu-mpi"])
    journal.decide("alarm", SEEN)
    again = open_journal(path, ACCOUNT, "us-east-1")
    assert (again.begun, again.kept, again.proofs) == (["mpi"], ["slipway-bakery-cpu-mpi"], {"alarm": SEEN})
    with pytest.raises(SystemExit, match="is of 123456789012 in us-east-1"):
        open_journal(path, "999999999999", "us-east-1")


def test_every_claim_names_what_it_needs_in_the_order_in_which_it_is_made() -> None:
    order = [stage.name for stage in STAGES]
    needed = [order.index(claim.stage) for claim in CLAIMS if claim.stage]
    assert needed == sorted(needed)
    assert {claim.stage for claim in CLAIMS} - {""} == BY_NAME.keys()
    assert [name for name, _ in promises()] == list(NAMES)


def test_the_page_says_nothing_yet_until_somebody_with_an_account_has_run_it() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "confirmed.md").read_text(encoding="utf-8")
    assert page.startswith("# Confirmed on AWS\n")
    assert "Nothing yet" in page or "Written by `scripts/acceptance`" in page
