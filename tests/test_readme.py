"""README and the pages of roads and costs have the code's numbers, and commands that work in order."""

from __future__ import annotations

import re

import pytest
from click.testing import CliRunner

from slipway.infra.clusters import CLUSTERS, MACHINE_IMAGES
from slipway.infra.declare.types import NodeCluster
from slipway.jobs.cli.cli import cli
from slipway.jobs.clusters.bill import is_shared, standing_items, total_usd_per_month
from slipway.jobs.estimate.evidence.bands import find_band
from slipway.jobs.estimate.evidence.trials import trials
from slipway.jobs.estimate.inputs.own_data import rates
from slipway.jobs.estimate.inputs.places import declared_places
from slipway.jobs.words.catalogue.instances import instance_type
from slipway.jobs.words.images.amis import bakery_stack_name
from tests.architecture.tracked import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")
LIMITS = (ROOT / "docs" / "limits.md").read_text(encoding="utf-8")
COSTS = (ROOT / "docs" / "costs.md").read_text(encoding="utf-8")
MOST_LINES = 110
MOST_LINES_BEFORE_DETAILS = 24  # the lines of a screen without the picture
# The machine image that each cluster's nodes start from.
AMIS = {"dl1": "gaudi-ecs", "dl1-mpi": "gaudi-mpi", "c6i": "cpu-mpi", "trn1": "neuron-slurm"}
PAGES = {"dl1-mpi": "dl1"}  # clusters without a page of their own


@pytest.fixture(autouse=True)
def nothing_of_my_own(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))


def words(text: str) -> str:
    return " ".join(text.split())


def road(cluster: str) -> str:
    page = PAGES.get(cluster, cluster)
    return (ROOT / "docs" / "roads" / f"{page}.md").read_text(encoding="utf-8")


def test_the_readme_is_short() -> None:
    assert len(README.splitlines()) <= MOST_LINES
    before, _, _ = README.partition("\n## Install")
    assert len(before.splitlines()) <= MOST_LINES_BEFORE_DETAILS
    assert "](docs/session.svg)" in before
    assert "```" not in before


def test_the_estimate_is_what_the_command_prints() -> None:
    command, shown = re.findall(r"^\$ slipway (estimate .*)\n((?:.+\n)*?)```", COSTS, re.MULTILINE)[0]
    assert CliRunner().invoke(cli, command.split()).stdout == shown


@pytest.mark.parametrize("word", ["calibrated", "predicted"])
def test_the_ranges_are_those_that_the_estimate_tells(word: str) -> None:
    band = find_band(word, "cuda")
    assert band.told is not None
    assert f"{word}, ± {band.told * 100:.0f} % in the median, held {band.held} of {band.rows}" in words(COSTS)


@pytest.mark.parametrize(("families", "within"), [(("dl1/",), 3), (("trn1/",), 3), (("c6i/",), 11)])
def test_the_article_s_tables_are_as_near_as_it_says(families: tuple[str, ...], within: int) -> None:
    errors = [abs(trial.error) for trial in trials() if trial.table.startswith(families)]
    assert within - 1 < max(errors) * 100 <= within
    assert f"within {within} % for" in words(COSTS)


@pytest.mark.parametrize(
    "cluster",
    [cluster for cluster in CLUSTERS if isinstance(cluster, NodeCluster)],
    ids=lambda cluster: cluster.name,
)
def test_a_machine_image_is_baked_after_its_bakery_and_before_its_cluster_is_deployed(
    cluster: object,
) -> None:
    name = str(getattr(cluster, "name"))  # noqa: B009 - the kinds of clusters share no type here
    ami = AMIS[name]
    assert ami in {image.name for image in MACHINE_IMAGES}
    order = (f"cdk deploy {bakery_stack_name(ami)}", f"slipway image bake {ami} --wait", f"cdk deploy {name}")
    places = [re.search(rf"^(?:.*&& )?{re.escape(line)}\b(?!-)", road(name), re.MULTILINE) for line in order]
    assert all(places), order
    starts = [place.end() for place in places if place]
    assert starts == sorted(starts)


def test_what_clusters_cost_at_most_is_told() -> None:
    for place in declared_places(rates(), region=None, term="on-demand"):
        price = instance_type(place.instance.name).price
        assert price is not None
        assert f"{price.usd_per_hour * place.most_nodes:.2f} USD an hour" in words(LIMITS)


@pytest.mark.cdk
def test_what_clusters_cost_while_nothing_runs_is_told() -> None:
    from slipway.infra.templates import templates  # in this process: five of its own take two seconds each

    costs = []
    for cluster in CLUSTERS:
        items = standing_items(templates(cluster), cluster.region)  # type: ignore[arg-type]  # they are JSON
        own = total_usd_per_month([item for item in items if not is_shared(item.stack)])
        bakery = total_usd_per_month([item for item in items if is_shared(item.stack)])
        assert re.search(rf"\b{own:.0f}\b(?: USD a month)? \({cluster.name}\)", words(LIMITS))
        assert not bakery or f"{bakery:.0f} more for the bakery" in words(LIMITS)
        if told := re.search(rf"{cluster.name}: ([0-9.]+) USD a month, and what is stored", COSTS):
            assert told[1] == f"{own:.2f}"
        costs.append(round(own))
    bounds = f"costs {min(costs)} to {max(costs)} USD a month while nothing runs"
    assert f"{bounds}, on Slurm without AWS PCS's controller" in words(README)


def test_what_does_not_work_on_aws_stands_where_a_reader_looks_for_it() -> None:
    limits = words(README).partition("## What it is not")[2]
    for told in ("Not tried on AWS yet", "does not join its cluster costs half an hour", "no sandbox"):
        assert told in limits
    for told in (
        "Nobody has tried it on AWS",
        "does not join its cluster costs half an hour",
        "cost allocation tag",
        "Amazon Linux only",
        "stays RUNNABLE",
    ):
        assert told in words(LIMITS)
    assert "Nobody has tried it on AWS" in words(road("dl1"))


def test_nothing_promises_what_was_found_untrue() -> None:
    for untrue in (
        "nine of ten such rows are at most",
        "tested image",
        "each with its fix",
        "only their role can read",
    ):
        for page in (README, LIMITS, COSTS, road("dl1"), road("c6i")):
            assert untrue not in words(page)
