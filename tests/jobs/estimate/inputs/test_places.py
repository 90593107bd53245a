"""Where an estimate is for: what is declared, a type by itself, or what is deployed."""

from __future__ import annotations

import pytest

from slipway.jobs.estimate.inputs import places
from slipway.jobs.estimate.inputs.places import declared_places, find_place
from slipway.jobs.estimate.prices import ON_DEMAND, known_rates
from slipway.jobs.words.installation import NoProject
from slipway.jobs.words.targets import BatchTarget
from tests.jobs.conftest import Slipway

RATES = known_rates()


def test_a_declared_cluster_has_its_size_its_region_and_what_stands_around_it() -> None:
    place = find_place("dl1", RATES, region=None, term=ON_DEMAND)
    assert (place.instance.name, place.most_nodes, place.region) == ("dl1.24xlarge", 16, "us-east-1")
    assert place.overheads.interface_endpoints == 12


def test_every_declared_cluster_is_a_place() -> None:
    assert {"dl1", "c6i"} <= {place.name for place in declared_places(RATES, region=None, term=ON_DEMAND)}


def test_without_a_checkout_a_target_is_asked_for(
    target: BatchTarget, slipway: Slipway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A laptop that only submits has no infra folder."""

    def nothing_declared() -> None:
        raise NoProject("there is none")

    monkeypatch.setattr(places, "declared_clusters", nothing_declared)
    place = find_place("dl1", RATES, region=None, term=ON_DEMAND)
    assert (place.instance.name, place.most_nodes) == (target.instance_type, target.max_nodes)
    assert declared_places(RATES, region=None, term=ON_DEMAND) == []
    code, _, err = slipway("estimate", "bert-large", "--on", "dl9")
    assert code == 1
    assert "no target is called 'dl9'" in err
