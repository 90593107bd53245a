"""Trials on one cluster run at the same time as far as its nodes allow."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from slipway.jobs.code.packing import PackedProject
from slipway.jobs.plan.tasks.on_clusters import searching_there
from slipway.jobs.plan.tasks.on_clusters.searching_there import ClusterTrials
from slipway.jobs.plan.tasks.on_clusters.sent_code import TaskCluster
from slipway.jobs.plan.tasks.trials import Combination
from slipway.jobs.plan.techniques.techniques import Variant
from slipway.jobs.words.job import Job
from slipway.jobs.words.run import JobState
from tests.jobs.plan.run.test_clusters import run
from tests.jobs.plan.tasks.on_clusters.test_what_travels import own_task
from tests.jobs.words.test_targets import TARGET

NODES = 3
LOOKS = 50  # after this many looks, no other trial will join one that still runs alone


@dataclass(slots=True)
class FakeCluster:
    """Ends a trial once as many nodes are in use as the test expects; counts the most in use."""

    enough: int
    nodes: dict[str, int] = field(default_factory=dict)
    most: int = 0
    ended: int = 0

    def submit(self, job: Job, *_: object, **__: object) -> Any:
        job_id = f"trial-{len(self.nodes) + self.ended}-{job.settings['command'][-20:]}"
        self.nodes[job_id] = job.nodes
        self.most = max(self.most, sum(self.nodes.values()))
        return SimpleNamespace(job_id=job_id, existed=False)

    def refresh(self, job_id: str, _: object) -> Any:
        return SimpleNamespace(run=run(id=job_id, state=JobState.SUCCEEDED))

    def follow_lines(
        self, found: Any, *_: object, pause: Callable[[float], None], **__: object
    ) -> Iterator[Any]:
        for _look in range(LOOKS):
            if self.most >= self.enough:
                break
            pause(0.01)
        self.ended += 1
        del self.nodes[found.run.id]
        yield SimpleNamespace(text='trial: {"seconds": [1.0, 1.0, 1.0]}')


def trial(nodes: int, kept: str) -> Combination:
    variant = Variant(name="data", settings={"keep": kept}, layout={})
    return Combination(task=own_task().describe(), technique="data", variant=variant, devices=nodes)


@pytest.mark.parametrize("wanted", [(1, 1, 1), (1, 2, 1)])
def test_trials_run_beside_each_other_on_as_many_nodes_as_the_cluster_has(
    wanted: tuple[int, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cloud = FakeCluster(enough=NODES)
    for name in ("submit", "refresh", "follow_lines"):
        monkeypatch.setattr(searching_there, name, getattr(cloud, name))
    trials = ClusterTrials(
        cluster=TaskCluster(target=TARGET, ranks_per_node=1, nodes=NODES),
        code=PackedProject(digest="0" * 64, archive=tmp_path, files=1, size_bytes=1, packed_bytes=1),
        say=lambda _: None,
    )
    with ThreadPoolExecutor() as pool:
        asked = [trial(nodes, str(number)) for number, nodes in enumerate(wanted)]
        found = list(pool.map(lambda tried: trials.run(tried, tmp_path), asked))
    assert [each.seconds for each in found] == [1.0] * len(wanted)
    assert cloud.most == NODES
