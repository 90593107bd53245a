"""`python -m slipway.infra.declare`: what jobs read of the declarations, without ever loading the CDK."""

from __future__ import annotations

import json
import subprocess
import sys
import types
from pathlib import Path

import pytest

import slipway.infra
from slipway.infra.declare.declared import load, main
from slipway.jobs.words.errors import InvalidConfig

ROOT = Path(__file__).parents[3]


def test_it_prints_every_cluster_with_the_overrides_applied(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["-c", "dl1.max_nodes=4", "--context", "dl1.tags.note=a=b"]) == 0
    cluster = json.loads(capsys.readouterr().out)["clusters"][0]
    assert (cluster["kind"], cluster["name"], cluster["max_nodes"]) == ("batch", "dl1", 4)
    assert cluster["tags"] == {"note": "a=b"}


def test_it_prints_all_problems_and_ends_with_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["-c", "dl1.max_nodes=0", "-c", "dl2.zone=x"]) == 2
    where = [problem["where"] for problem in json.loads(capsys.readouterr().out)["problems"]]
    assert where == ["dl2.zone of the context", "dl1.max_nodes of the context"]


def test_it_loads_neither_the_cdk_nor_boto3() -> None:
    code = (
        "import sys; from slipway.infra.declare import declared; declared.load({});"
        "print([name for name in sys.modules if '.' not in name])"
    )
    loaded = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    assert "'slipway'" in loaded
    assert not any(
        f"'{heavy}'" in loaded for heavy in ("aws_cdk", "jsii", "boto3", "botocore", "rich", "yaml")
    )


def _declare(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stand a clusters.py of our own in front of the repository's."""
    module = types.ModuleType("slipway.infra.clusters")
    monkeypatch.setitem(sys.modules, "slipway.infra.clusters", module)
    monkeypatch.setattr(slipway.infra, "clusters", module, raising=False)

    def missing(_name: str) -> object:
        exec(source, vars(module))  # noqa: S102 - our own source, run when load() imports CLUSTERS
        return vars(module)["CLUSTERS"]

    vars(module)["__getattr__"] = missing


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("nodez=4", "clusters.py: 'nodez' is not a setting; did you mean max_nodes?"),
        ("name='a'", "missing 6 required keyword-only arguments: 'instance_type', 'max_nodes'"),
    ],
)
def test_a_misspelt_or_missing_setting_in_clusters_py_is_told_like_any_other_mistake(
    setting: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _declare(
        f"from slipway.infra.declare.types import BatchCluster\nCLUSTERS = (BatchCluster({setting}),)",
        monkeypatch,
    )
    with pytest.raises(InvalidConfig) as refusal:
        load({})
    assert said in refusal.value.message
