"""A sweep of recipes and grids becomes jobs with estimated modes for each pool in which they can train."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from slipway.jobs.plan.inputs.files import PlanFile
from slipway.jobs.plan.inputs.planning import plan
from slipway.jobs.plan.inputs.sweeps import read_sweep
from slipway.jobs.plan.search.refusals import CannotPlan
from slipway.jobs.words.errors import SlipwayError
from slipway.jobs.words.recipes import find_recipe, refuse_settings
from tests.jobs.code.projects import write

POOLS = """
[[pools]]
cluster = "dl1"
nodes = 2

[[pools]]
type = "p4d.24xlarge"
nodes = 1
"""
TYPES = ("dl1.24xlarge", "p4d.24xlarge")
JOBS = """
[[jobs]]
name = "bert"
recipe = "bert_pretrain"
settings = { size = "large", sequences = 2000000, micro_batch = 8 }
grid = { learning_rate = [1e-3, 3e-4], global_batch = [512, 1024] }
"""


def read(tmp_path: Path, text: str) -> PlanFile:
    path = tmp_path / "sweep.toml"
    path.write_text(text, encoding="utf-8")
    return read_sweep(path)


def test_each_point_of_a_grid_is_a_job_with_estimated_modes_in_every_pool(tmp_path: Path) -> None:
    found = read(tmp_path, POOLS + JOBS)
    assert [job.name for job in found.jobs] == [
        "bert-0_001-512",
        "bert-0_001-1024",
        "bert-0_0003-512",
        "bert-0_0003-1024",
    ]
    dl1, p4d = found.pools
    assert (dl1.cluster, dl1.devices_per_node, p4d.devices_per_node) == ("dl1", 1, 8)
    first = found.jobs[0]
    assert first.job is not None
    assert first.job.settings["learning_rate"] == "0.001"
    assert {mode.type for mode in first.modes} == {"dl1.24xlarge", "p4d.24xlarge"}
    assert {"data", "fsdp"} <= {mode.technique for mode in first.modes}
    assert all(mode.source == "estimated" and mode.error > 0 for mode in first.modes)


def test_a_cluster_gets_no_mode_that_is_not_proved_on_the_pytorch_of_its_image(tmp_path: Path) -> None:
    first = read(tmp_path, POOLS + JOBS).jobs[0]
    by_type = {kind: {mode.technique for mode in first.modes if mode.type == kind} for kind in TYPES}
    assert by_type["dl1.24xlarge"] == {"data"}  # Gaudi's has PyTorch 2.4.0
    assert "fsdp" in by_type["p4d.24xlarge"]  # an unknown image


def test_the_recipe_takes_what_every_mode_would_set(tmp_path: Path) -> None:
    for job in read(tmp_path, POOLS + JOBS).jobs:
        assert job.job is not None
        recipe = find_recipe(job.job.recipe)
        for mode in job.modes:
            refuse_settings(recipe, {**job.job.settings, **dict(mode.settings)})


def test_a_sweep_can_be_planned_at_a_known_price(tmp_path: Path) -> None:
    found = read(tmp_path, POOLS + JOBS)
    assert found.unpriced == ()
    planned = plan(found.jobs, found.pools, time_limit=0)
    assert planned.dollars > 0


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[[pools]", "is not TOML"),
        ('[[pools]]\nnodes = 1\n[[jobs]]\nrecipe = "smoke"', "pools[0] needs a cluster or a type"),
        ('[[pools]]\ntype = "p4d.24xlarge"\n', "pools[0] has no nodes"),
        ('[[pools]]\ncluster = "nowhere"\n', "nowhere"),
        (POOLS + "[[jobs]]\nrecipe = 'bert_pretrian'\n", "no recipe 'bert_pretrian'"),
        (POOLS + JOBS + "grids = 3\n", "jobs[0].grids is no field of a sweep"),
        (POOLS + JOBS.replace("[512, 1024]", "512"), "jobs[0].grid.global_batch is no list of values"),
        (POOLS + JOBS.replace("large", "huge"), "jobs[0]: --set: size is 'huge'"),
        (POOLS + "[[jobs]]\nrecipe = 'smoke'\n", "jobs[0]: recipe 'smoke' trains no model"),
        (POOLS + JOBS.replace("sequences = 2000000, ", "steps = 0, "), "steps is '0'"),
    ],
)
def test_what_cannot_be_planned_is_told_in_one_line(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(SlipwayError) as refused:
        read(tmp_path, text)
    assert said in refused.value.message
    assert refused.value.exit_code == 2


def test_a_model_that_fits_nowhere_is_named_with_the_pools(tmp_path: Path) -> None:
    jobs = '[[jobs]]\nname = "neox"\nrecipe = "gpt_neox"\nsettings = { size = "neox-20b" }\n'
    with pytest.raises(CannotPlan, match=r"job 'neox' fits none of the pools \(p3.16xlarge\)"):
        read(tmp_path, f'[[pools]]\ntype = "p3.16xlarge"\nnodes = 1\n{jobs}')


COMMAND = """
[[jobs]]
name = "vision"
command = ["python", "train.py"]
folder = "vision"
modes = [{ nodes = 1, seconds = 7200 }, { nodes = 2, seconds = 4000 }]
"""


@pytest.fixture
def vision(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a user's folder next to the sweep."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return write(tmp_path / "vision", {"train.py": "print(1)\n"})


def test_a_command_of_ones_own_has_the_times_that_the_file_gives(tmp_path: Path, vision: Path) -> None:
    (job,) = read(tmp_path, POOLS + COMMAND).jobs
    assert {(mode.type, mode.devices, mode.seconds) for mode in job.modes} == {
        ("dl1.24xlarge", 1, 7200),
        ("dl1.24xlarge", 2, 4000),
        ("p4d.24xlarge", 8, 7200),
    }
    assert job.job is not None
    assert job.job.recipe == "command"
    assert job.job.settings["command"] == '["python", "train.py"]'
    kept = Path(job.job.settings["source"])
    (vision / "train.py").write_text("print(2)\n")
    with tarfile.open(kept) as archive:
        content = archive.extractfile("train.py")
        assert content is not None
        assert content.read() == b"print(1)\n", "it runs as it was planned"


@pytest.mark.parametrize("folder", ["../../../../etc", "/etc", "..", "vision/../.."])
def test_a_folder_elsewhere_on_the_machine_is_not_packed(tmp_path: Path, vision: Path, folder: str) -> None:
    """BI-409"""
    with pytest.raises(CannotPlan, match=f"folder .*{folder}.*a folder in {tmp_path}"):
        read(tmp_path, POOLS + COMMAND.replace('folder = "vision"', f'folder = "{folder}"'))


def test_a_plan_packs_folders_of_the_project_that_it_lies_in(tmp_path: Path, vision: Path) -> None:
    write(tmp_path, {"cdk.json": "{}", "clusters.py": "", "plans/x": ""})
    pools = POOLS.replace('cluster = "dl1"', 'type = "dl1.24xlarge"')
    text = pools + COMMAND.replace('folder = "vision"', 'folder = "../vision"')
    assert read(tmp_path / "plans", text).jobs


def test_a_number_that_nobody_can_read_is_no_fault_of_ours(tmp_path: Path) -> None:
    """BI-407"""
    with pytest.raises(CannotPlan, match="is not TOML: Exceeds the limit"):
        read(tmp_path, (POOLS + COMMAND).replace("7200", "9" * 5000))


SAID = """
requirements = "needs/extra.txt"
image = "vision"
processes_per_node = 4
attempts = 2
limit = 10
include_secrets = true
data = "s3://bucket/rows"
checkpoints = "s3://bucket/kept"
"""


def test_a_planned_command_says_all_that_run_says(
    tmp_path: Path, vision: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(vision, {"needs/extra.txt": "numpy\n", ".env": "TOKEN=1\n"})
    project = {"cdk.json": "{}", "clusters.py": "", "images/vision/Dockerfile": "FROM python:3.12-slim\n"}
    monkeypatch.chdir(write(tmp_path / "mine", project))
    (planned,) = read(
        tmp_path, POOLS.replace('cluster = "dl1"', 'type = "dl1.24xlarge"') + COMMAND + SAID
    ).jobs
    job = planned.job
    assert job is not None
    assert job.settings["requirements"] == "needs/extra.txt"
    assert job.image is not None
    assert job.image.startswith("own-vision-"), "the image as it was when it was planned"
    assert (job.processes_per_node, job.attempts) == (4, 2)
    assert (job.data, job.checkpoints) == ("s3://bucket/rows", "s3://bucket/kept")
    with tarfile.open(job.settings["source"]) as archive:
        assert ".env" in archive.getnames()


@pytest.mark.parametrize(
    ("said", "refused"),
    [
        ('requirements = "lost.txt"', r"jobs\[0\]: requirements lost.txt is no file that is sent from"),
        ('image = "visoin"', r"jobs\[0\]: image visoin is no URI with a tag, and no folder of images/"),
        ('image = "1.dkr.ecr.us-east-1.amazonaws.com/vision"', "is no URI with a tag"),
        ("image = 3", r"jobs\[0\].image is 3; allowed is a text"),
        ("attempts = 99", r"jobs\[0\]: .*attempts.* is 99; allowed is 1 to 10"),
        ("processes_per_node = 0", r"jobs\[0\]: .*processes-per-node.* is 0"),
        ("per_node = true\nprocesses_per_node = 2", r"jobs\[0\]: the command starts once a node, and 2"),
        ("limit = 0", r"jobs\[0\].limit is 0; allowed is 1 to 5000"),
        ('include_secrets = "yes"', r"jobs\[0\].include_secrets is 'yes'; allowed is true or false"),
        ("timeout_hours = 3", r"jobs\[0\].timeout_hours is no field of a command"),
    ],
)
def test_what_run_would_refuse_of_a_command_is_refused_with_its_place(
    tmp_path: Path, vision: Path, said: str, refused: str
) -> None:
    with pytest.raises(CannotPlan, match=refused) as error:
        read(tmp_path, f"{POOLS}{COMMAND}{said}\n")
    assert "\n" not in error.value.message


def test_a_pool_without_efa_joins_nodes_if_it_says_so(tmp_path: Path, vision: Path) -> None:
    text = '[[pools]]\ntype = "c6i.16xlarge"\nnodes = 2\nspans_nodes = true\n' + COMMAND
    assert read(tmp_path, text).pools[0].spans_nodes
    assert not read(tmp_path, text.replace("spans_nodes = true", "")).pools[0].spans_nodes


def test_a_secret_in_the_folder_of_a_planned_command_is_refused_by_name(tmp_path: Path, vision: Path) -> None:
    write(vision, {".env": "TOKEN=1\n"})
    with pytest.raises(CannotPlan, match=r"jobs\[0\]: .*\.env"):
        read(tmp_path, POOLS + COMMAND)


def test_an_image_is_refused_where_the_plan_might_choose_nodes_without_containers(
    tmp_path: Path, vision: Path
) -> None:
    pools = POOLS + '[[pools]]\ncluster = "c6i"\n'
    image = 'image = "123456789012.dkr.ecr.us-east-1.amazonaws.com/vision:2"\n'
    with pytest.raises(CannotPlan, match="has an image, and the nodes of pool 'c6i' run no containers"):
        read(tmp_path, pools + COMMAND + image)
    typed = COMMAND.replace("seconds = 7200", 'seconds = 7200, type = "dl1.24xlarge"').replace(
        "seconds = 4000", 'seconds = 4000, type = "dl1.24xlarge"'
    )
    (planned,) = read(tmp_path, pools + typed + image).jobs
    assert {mode.type for mode in planned.modes} == {"dl1.24xlarge"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            POOLS.replace("nodes = 2", "nodes = 1") + COMMAND,
            r"modes\[1\] asks for 2 nodes, and no pool has them",
        ),
        (f'{POOLS}{COMMAND}recipe = "smoke"', r"jobs\[0\].recipe is no field of a command in a sweep"),
        (POOLS + COMMAND.replace('["python", "train.py"]', "[]"), "the words of a command"),
        (POOLS + COMMAND.replace("train.py", "trian.py"), r"jobs\[0\]: trian.py is not in .*vision"),
    ],
)
def test_a_command_that_cannot_be_planned_is_refused_with_its_place(
    tmp_path: Path, vision: Path, text: str, said: str
) -> None:
    with pytest.raises(CannotPlan, match=said):
        read(tmp_path, text)


def test_a_spot_pool_is_priced_as_spot_and_the_day_of_each_price_is_told(tmp_path: Path) -> None:
    pools = '[[pools]]\ntype = "p4d.24xlarge"\nnodes = 2\nspot = {}\n'
    on_spot = read(tmp_path, pools.format("true") + JOBS)
    on_demand = read(tmp_path, pools.format("false") + JOBS)
    assert on_spot.pools[0].price_per_hour < on_demand.pools[0].price_per_hour
    for found, term in ((on_spot, "spot"), (on_demand, "on-demand")):
        (said,) = found.priced
        assert f"{found.pools[0].price_per_hour:g} USD an hour {term} in us-east-1 of 202" in said
