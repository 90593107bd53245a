"""A reader can type what the pages say: each submission is decided on its cluster as it would be deployed."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path

import click
import pytest

from slipway.infra.clusters import CLUSTERS, MACHINE_IMAGES
from slipway.infra.declare.checks.clusters import problems_of
from slipway.infra.declare.node_images import container_of, locked_by
from slipway.infra.declare.types import BatchCluster, Cluster, MpiCluster, SageMakerCluster, SlurmCluster
from slipway.jobs.cli.cli import PROGRAM, CommandGroup, cli
from slipway.jobs.code.starting import build_files
from slipway.jobs.submit import find
from slipway.jobs.submit.find import UnknownJob
from slipway.jobs.words.catalogue.hardware import device_of
from slipway.jobs.words.catalogue.instances import find_instance_type, instance_type
from slipway.jobs.words.images.amis import bakery_stack_name
from slipway.jobs.words.images.aws_images import published_image
from slipway.jobs.words.installation import DECLARATIONS, containers_folder
from slipway.jobs.words.names import is_cluster_name
from slipway.jobs.words.run import Cost, Found, JobState, Run
from slipway.jobs.words.targets import (
    MpiTarget,
    SageMakerTarget,
    SlurmTarget,
    Target,
)
from tests.architecture.tracked import paths
from tests.jobs.conftest import Slipway
from tests.jobs.deployed import deploy_target, record_target
from tests.jobs.words.test_targets import MPI_TARGET, SAGEMAKER_TARGET, SLURM_TARGET
from tests.test_docs import SHELL_BLOCK, SLIPWAY, page
from tests.yard.conftest import RunningYard

PAGES = [
    "README.md",
    "docs/first-hour.md",
    "docs/gpt-neox.md",
    "docs/gptj.md",
    "docs/sft.md",
    *(p for p in paths(".md") if "docs/roads/" in p),
]
DECLARED = {cluster.name: cluster for cluster in CLUSTERS}
SAMPLES: Mapping[type[Cluster], MpiTarget | SlurmTarget] = {
    MpiCluster: MPI_TARGET,
    SlurmCluster: SLURM_TARGET,
}
# How a command calls the cluster that it is about.
CLUSTER_VALUES = ("target", "cluster", "place")
CLUSTERS_OF_A_PAGE = re.compile(r"^```python\n(.*?^CLUSTERS = .*?)^```$", re.MULTILINE | re.DOTALL)
CDK_DEPLOY = re.compile(r"\bcdk deploy (?:--\S+ )*([\w-]+)")
UPLOADED = re.compile(r"s3://[^/]+/datasets/([^\s]+)")
NO_DATA_OF_ITS_OWN = {"smoke", "prepare_bert", "prepare_corpus", "prepare_tokens"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One command that a page tells, and the values that click reads in it."""

    name: str
    words: tuple[str, ...]
    values: Mapping[str, object]

    @classmethod
    def of(cls, words: Sequence[str]) -> Line:
        command = cli.get_command(click.Context(cli), words[0])
        assert command is not None, words
        # click keeps the names of a command's help as they were the first time.
        whole = click.Context(cli, **cli.context_settings)
        name, rest = words[0], list(words[1:])
        if isinstance(command, CommandGroup):
            found = command.get_command(click.Context(command), rest[0])
            assert found is not None, words
            command, name, rest = found, f"{name} {rest[0]}", rest[1:]
        elif isinstance(command, click.Group):  # of the yard, which names no cluster
            return cls(name=name, words=tuple(words), values={})
        context = command.make_context(name, rest, parent=whole, resilient_parsing=True)
        return cls(name=name, words=tuple(words), values=context.params)

    @property
    def is_submission(self) -> bool:
        return self.name == "submit"

    def text(self, name: str) -> str:
        return str(self.values[name])

    def clusters(self) -> list[str]:
        found = [self.values[name] for name in CLUSTER_VALUES if self.values.get(name)]
        named = self.values.get("names") if self.name in ("cluster targets", "cluster list") else ()
        return [str(name) for name in (*found, *(named or ()))]  # type: ignore[misc]  # click's are words


def blocks(path: str) -> list[str]:
    """Return what is typed in each block of a page, with lines that were continued joined."""
    found: list[str] = []
    for block in SHELL_BLOCK.findall(page(path)):
        lines = block.replace("\\\n", " ").splitlines()
        found += [line for line in lines if line.startswith("$ ")] or lines
    return found


def lines_of(path: str) -> list[Line]:
    return [
        Line.of(words)
        for typed in blocks(path)
        for arguments in SLIPWAY.findall(typed)
        if (words := shlex.split(arguments, comments=True)) and not words[0].startswith("-")
    ]


SUBMISSIONS = {path: [line for line in lines_of(path) if line.is_submission] for path in PAGES}


def declared_on(path: str) -> Mapping[str, Cluster]:
    """Return the clusters of this checkout, of the page, and of projects that it begins."""
    own: list[Cluster] = []
    begun = [line.text("folder") for line in lines_of(path) if line.name == "init"]
    projects = [build_files(name, "000000")["clusters.py"] for name in begun if is_cluster_name(name)]
    for text in (*projects, *CLUSTERS_OF_A_PAGE.findall(page(path))):
        namespace: dict[str, tuple[Cluster, ...]] = {}
        exec(text, namespace)  # noqa: S102 - as slipway runs a clusters.py
        own += namespace["CLUSTERS"]
    return {**DECLARED, **{cluster.name: cluster for cluster in own}}


@pytest.mark.parametrize("path", sorted({*PAGES, "docs/projects.md"}))
def test_every_cluster_that_a_page_declares_may_be_deployed(path: str) -> None:
    own = [cluster for name, cluster in declared_on(path).items() if name not in DECLARED]
    assert [problem for cluster in own for problem in problems_of(cluster)] == []


@pytest.mark.parametrize("path", PAGES)
def test_every_cluster_that_a_page_names_is_declared_or_begun_there(path: str) -> None:
    stacks = {bakery_stack_name(image.name) for image in MACHINE_IMAGES}
    named = [name for line in lines_of(path) for name in line.clusters()]
    deployed = [name for typed in blocks(path) for name in CDK_DEPLOY.findall(typed)]
    unknown = {name for name in named if find_instance_type(name) is None} - set(declared_on(path))
    assert not unknown
    assert not set(deployed) - set(declared_on(path)) - stacks


@pytest.mark.parametrize("path", [path for path, found in SUBMISSIONS.items() if found])
def test_every_submission_of_a_page_is_one_that_its_cluster_takes(
    path: str, yard_shell: RunningYard, slipway: Slipway, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = _Jobs(())
    monkeypatch.setattr(find, "find_run", jobs.find)
    declared = declared_on(path)
    for name in {line.text("target") for line in SUBMISSIONS[path]}:
        deploy(yard_shell, declared[name])
    uploads = {uploaded_name(line) for line in lines_of(path) if line.name == "cluster upload"}
    for line in SUBMISSIONS[path]:
        words = [word for word in line.words if word not in ("--follow", "--dry-run")]
        bucket = bucket_of(line.text("target"))
        code, out, err = slipway(*(word.replace("BUCKET", bucket) for word in words), "--dry-run")
        assert code == 0, f"{PROGRAM} {shlex.join(words)}\n{err}"
        assert "may read only" not in err, err
        assert "share no files" not in err, err
        read = UPLOADED.findall(shlex.join(words))
        assert all(any(f"{name}/".startswith(f"{own}/") for own in uploads) for name in read), (read, uploads)
        if line.text("target") == "sagemaker" and line.text("recipe") not in NO_DATA_OF_ITS_OWN:
            channels = json.loads(out)["request"]["create"].get("InputDataConfig", [])
            assert "data" in [channel["ChannelName"] for channel in channels], (
                "nothing brings what it trains on"
            )
        jobs = jobs.with_one(str(line.values.get("name") or line.text("recipe")))
        monkeypatch.setattr(find, "find_run", jobs.find)


# What the rest of a page's lines are played with here. Those of a job that runs, and of a yard, are played
# where one runs: tests/end_to_end has each page, and tests/test_readme_session.py README's session.
PLAYED: Mapping[str, tuple[str, ...]] = {
    "run": ("--dry-run",),
    "estimate": (),
    "cluster quota": (),
    "cluster targets": (),
    "cluster upload": (),
    "cluster leftovers": (),
    "preflight": (),
}
OF_A_JOB = {"cancel", "explain", "logs", "report curve", "report speedup", "report tensorboard"}
OF_A_STACK = {"cluster destroy", "image bake", "image build", "init", "up", "yard"}
A_MODEL = {
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "vocab_size": 1000,
    "max_position_embeddings": 128,
}
SAYS_WHAT_LACKS = {"preflight"}  # its exit code is 1 where something is missing


@pytest.mark.parametrize("path", PAGES)
def test_every_other_line_of_a_page_is_taken(
    path: str,
    yard_shell: RunningYard,
    slipway: Slipway,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lines = [line for line in lines_of(path) if not line.is_submission]
    assert {line.name for line in lines} <= {*PLAYED, *OF_A_JOB, *OF_A_STACK}
    declared = declared_on(path)
    own = [name for name in declared if name not in DECLARED]
    if own:
        write_project(path, own[0], tmp_path)
        monkeypatch.chdir(tmp_path / own[0])
    for name in {name for line in lines if line.name in PLAYED for name in line.clusters()}:
        deploy(yard_shell, declared[name])
    for line in lines:
        if line.name in PLAYED and not line.values.get("idle"):  # that synthesizes, as test_standing.py does
            words = [word for word in line.words if word not in ("--wait", "--follow")]
            at = words.index("--") if "--" in words else len(words)
            played = [*words[:at], *PLAYED[line.name], *words[at:]]
            if line.name == "cluster upload":
                played[2] = small_upload((Path.cwd() if own else tmp_path) / line.text("path"))
            code, _, err = slipway(*played)
            assert code == 0 or (code == 1 and line.name in SAYS_WHAT_LACKS), f"{shlex.join(played)}\n{err}"


def write_project(path: str, name: str, folder: Path) -> None:
    """Begin the project that a page declares clusters in."""
    for file, text in build_files(name, "000000").items():
        (folder / name / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / name / file).write_text(text, encoding="utf-8")
    for text in CLUSTERS_OF_A_PAGE.findall(page(path)):
        (folder / name / DECLARATIONS).write_text(f"{text}MACHINE_IMAGES = ()\n", encoding="utf-8")


def small_upload(path: Path) -> str:
    """Make up a file of this name, or the folder of a model."""
    file = path if path.suffix else path / "config.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(A_MODEL), encoding="utf-8")
    return str(path)


def uploaded_name(line: Line) -> str:
    return str(line.values.get("name") or line.text("path").rstrip("/").rpartition("/")[2])


@dataclass(frozen=True, slots=True)
class _Jobs:
    """The jobs that the page's earlier lines submitted: all of them succeeded."""

    names: tuple[str, ...]

    def with_one(self, name: str) -> _Jobs:
        return _Jobs((*self.names, name))

    def find(self, text: str, targets: Sequence[Target]) -> Found[Target]:
        if text not in self.names:
            raise UnknownJob(f"no line of the page before this one submits {text}")
        unsaid = dict.fromkeys(field.name for field in fields(Run))
        ended = {"id": f"{text}-id", "name": f"{text}-0123456789ab", "state": JobState.SUCCEEDED}
        cost = Cost(usd=None, node_hours=None, price=None)
        return Found(
            run=Run(**{**unsaid, **ended, "cost": cost, "attempts": (), "depends_on": ()}),  # type: ignore[arg-type]  # unsaid is None
            target=targets[0],
            detail={},
        )


def bucket_of(cluster: str) -> str:
    return f"slipway-{cluster}-data"


def deploy(yard: RunningYard, cluster: Cluster) -> None:
    """Write the record of a declared cluster, as its stack would."""
    yard.client("s3").create_bucket(Bucket=bucket_of(cluster.name))
    if isinstance(cluster, BatchCluster):
        deployed = deploy_target(yard, cluster.name)
        target: Target = replace(
            deployed,
            instance_type=cluster.instance_type,
            max_nodes=cluster.max_nodes,
            bucket=bucket_of(cluster.name),
            image=container_of(cluster),
        )
    else:
        target = target_of(cluster)
    record_target(yard, target)


def target_of(cluster: Cluster) -> Target:
    assert isinstance(cluster, MpiCluster | SlurmCluster | SageMakerCluster), cluster.name
    return replace(
        _sagemaker(cluster) if isinstance(cluster, SageMakerCluster) else SAMPLES[type(cluster)],
        name=cluster.name,
        instance_type=cluster.instance_type,
        max_nodes=cluster.max_nodes,
        bucket=bucket_of(cluster.name),
        machine_image=locked_by(cluster),
    )


def _sagemaker(cluster: SageMakerCluster) -> SageMakerTarget:
    """Return one without shared files, as the declared cluster has none."""
    device = device_of(instance_type(cluster.instance_type))
    image = published_image(containers_folder(), cluster.machine_image, region=cluster.region, device=device)
    unshared = replace(SAGEMAKER_TARGET, file_system_id=None, file_system_mount=None, file_system_path=None)
    return replace(unshared, image=image)
