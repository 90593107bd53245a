"""A command of a plan that its cluster would refuse is refused before anything of the plan is submitted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from slipway.jobs.code.folder import read_folder
from slipway.jobs.code.packing import keep_archive
from slipway.jobs.plan.run.clusters import NoTarget, completed, refuse_unfit_commands
from slipway.jobs.plan.search.model import (
    Assignment,
    Goal,
    LowerBound,
    Mode,
    NodeDevices,
    Plan,
    PlanJob,
    Pool,
)
from slipway.jobs.words.job import Job
from slipway.jobs.words.targets import BatchTarget, encode_target, parameter_name
from tests.jobs.code.projects import write
from tests.yard.conftest import RunningYard

MODE = Mode(technique="given", type="dl1.24xlarge", devices=1, seconds=600)
NEEDS = {"requirements": "needs.txt"}


def planned(target: BatchTarget, folder: Path, settings: Mapping[str, str], image: str | None = None) -> Plan:
    source = keep_archive(read_folder(write(folder, {"train.py": "", "needs.txt": "numpy\n"})))
    words = {"source": str(source), "command": '["python", "train.py"]', **settings}
    job = Job(name="vision", recipe="command", nodes=1, settings=words, image=image, processes_per_node=1)
    return Plan(
        jobs=(PlanJob(name="vision", modes=(MODE,), job=job),),
        pools=(Pool(type=MODE.type, nodes=2, devices_per_node=1, price_per_hour=1.0, cluster=target.name),),
        goal=Goal(),
        assignments=(
            Assignment(
                job="vision",
                mode=MODE,
                pool=0,
                start=0,
                seconds=600,
                placement=(NodeDevices(node=0, devices=(0,)),),
            ),
        ),
        bound=LowerBound(value=0, name="none"),
    )


def test_packages_that_no_node_could_install_are_refused_with_the_job(
    target: BatchTarget, yard_shell: RunningYard, tmp_path: Path
) -> None:
    plan = planned(target, tmp_path / "mine", NEEDS)
    write(tmp_path / "mine", {"needs.txt": "--no-index\n"})  # since then: it runs as it was planned
    with pytest.raises(NoTarget, match=r"job 'vision' of the plan: the nodes of .* reach no internet"):
        refuse_unfit_commands(plan)
    online = encode_target(replace(target, has_internet=True))
    parameters, name = yard_shell.client("ssm"), parameter_name(target.name)
    parameters.put_parameter(Name=name, Value=online, Type="String", Overwrite=True)
    refuse_unfit_commands(plan)


@pytest.mark.parametrize(
    ("image", "said"),
    [
        ("own-vision-0123456789abcdef", "the registry has no image .*:own-vision-0123456789abcdef"),
        ("example.com/vision:2", "is of example.com, and the nodes of"),
    ],
)
def test_an_image_that_the_cluster_cannot_pull_is_refused_with_the_job(
    target: BatchTarget, tmp_path: Path, image: str, said: str
) -> None:
    with pytest.raises(NoTarget, match=f"job 'vision' of the plan: .*{said}"):
        refuse_unfit_commands(planned(target, tmp_path / "mine", {}, image))


def test_a_folder_that_is_not_kept_any_more_is_refused_with_the_job(
    target: BatchTarget, tmp_path: Path
) -> None:
    plan = planned(target, tmp_path / "mine", {})
    (job,) = plan.jobs
    assert job.job is not None
    Path(job.job.settings["source"]).unlink()
    with pytest.raises(NoTarget, match="its folder is not kept as"):
        refuse_unfit_commands(plan)


def test_the_image_of_the_project_is_named_in_the_repository_of_the_chosen_cluster(
    target: BatchTarget, yard_shell: RunningYard, tmp_path: Path
) -> None:
    yard_shell.client("s3").create_bucket(Bucket=target.bucket)
    (job,) = planned(target, tmp_path / "mine", {}, "own-vision-0123456789abcdef").jobs
    assert job.job is not None
    sent = completed(job.job, target)
    assert sent.image == f"{target.repository_uri}:own-vision-0123456789abcdef"
    assert sent.settings["source"].startswith(f"s3://{target.bucket}/sources/")
