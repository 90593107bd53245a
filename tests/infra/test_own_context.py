"""A misspelt `-c CLUSTER.SETTING` in a user's own app is refused, and keys of the app's own are not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import aws_cdk as cdk
import pytest

from slipway.infra import RefusedCluster, add_cluster
from tests.infra.own_app import GUEST

SECOND = replace(GUEST, name="second", vpc_cidr="10.77.0.0/16")


def app_with(context: dict[str, object], folder: Path) -> cdk.App:
    """Return an app with two clusters, one of them in a Stage."""
    app = cdk.App(outdir=str(folder), context=context)
    add_cluster(app, GUEST)
    add_cluster(cdk.Stage(app, "Prod"), SECOND)
    return app


@pytest.mark.parametrize(
    ("key", "hint"),
    [
        ("gest.max_nodes", "did you mean guest?"),
        ("gest.max_node", "did you mean guest?"),
        ("secnd.region", "did you mean second?"),
        ("dl1.max_nodes", "allowed are guest, second"),
    ],
)
def test_a_setting_of_no_cluster_of_the_app_ends_its_synthesis_in_one_line(
    key: str, hint: str, tmp_path: Path
) -> None:
    app = app_with({key: "4"}, tmp_path)
    with pytest.raises(RefusedCluster) as refused:
        app.synth()
    name = key.partition(".")[0]
    assert str(refused.value.code) == (
        f"error: {key} of the context: names the cluster '{name}', which is not declared; {hint}"
    )
    assert list(tmp_path.rglob("*.template.json")) == []


@pytest.mark.parametrize("key", ["guest.max_node", "second.max_node"])
def test_a_misspelt_setting_of_a_cluster_is_refused_when_it_is_added(key: str, tmp_path: Path) -> None:
    with pytest.raises(RefusedCluster, match="did you mean max_nodes"):
        app_with({key: "4"}, tmp_path)


def test_keys_of_the_apps_own_and_settings_of_both_clusters_pass(tmp_path: Path) -> None:
    own: dict[str, object] = {"own.region": "eu-west-1", "guests.limit": "3", "stage": "prod", "a:b": "c"}
    settings: dict[str, object] = {"guest.max_nodes": "3", "second.idle_minutes": "40"}
    app = app_with({**own, **settings}, tmp_path)
    app.synth()
    assert list(tmp_path.rglob("*second*.template.json"))
