"""`slipway run` works in a user's own project, against the yard."""

from __future__ import annotations

import json
import tarfile
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from slipway.jobs.words.targets import BatchTarget
from tests.jobs.code.projects import write
from tests.jobs.conftest import Slipway
from tests.jobs.deployed import job_names
from tests.yard.conftest import RunningYard

RUN = ("run", "--on", "dl1", "--nodes", "2")
TRAIN = ("--", "python", "train.py", "--lr", "0.1")


@pytest.fixture
def project(
    yard_shell: RunningYard, target: BatchTarget, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """Enter a user's own folder, and make the cluster's bucket."""
    yard_shell.client("s3").create_bucket(Bucket=target.bucket)
    folder = write(tmp_path / "my project", {"train.py": "print(1)\n", ".gitignore": "*.ckpt\nlocal.py\n"})
    monkeypatch.chdir(folder)
    return folder


def sent(yard: RunningYard, target: BatchTarget) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = (
        yard.client("s3").list_objects_v2(Bucket=target.bucket, Prefix="sources/").get("Contents", [])
    )
    return listed


def test_a_file_of_requirements_that_nobody_named_is_told(
    project: Path, yard_shell: RunningYard, target: BatchTarget, slipway: Slipway
) -> None:
    write(project, {"requirements.txt": "numpy"})
    code, _, err = slipway(*RUN, "--dry-run", *TRAIN)
    assert code == 0
    assert "requirements.txt is sent and not installed: --requirements requirements.txt installs it" in err


def test_the_folder_is_sent_once_and_the_job_is_submitted_once(
    project: Path, yard_shell: RunningYard, target: BatchTarget, slipway: Slipway
) -> None:
    write(project, {"large.ckpt": "x" * 1000})
    code, out, err = slipway(*RUN, "--json", *TRAIN)
    assert code == 0, err
    job = json.loads(out)
    assert job["name"].startswith("my-project-")
    assert (job["command"], job["source"]["files"]) == ("python train.py --lr 0.1", 2)
    assert "the folder: 2 files, " in err
    (archive,) = sent(yard_shell, target)
    assert archive["Key"] == f"sources/{job['source']['sha256']}.tar.gz"
    content = yard_shell.client("s3").get_object(Bucket=target.bucket, Key=archive["Key"])["Body"].read()
    with tarfile.open(fileobj=BytesIO(content)) as tar:
        assert tar.getnames() == [".gitignore", "train.py"]
    again = slipway.json(*RUN, "--json", *TRAIN)
    assert (again["id"], again["existed"]) == (job["id"], True)
    assert slipway.json(*RUN, "--json", *TRAIN[:-1], "0.2")["id"] != job["id"]
    assert sent(yard_shell, target)[0]["LastModified"] == archive["LastModified"], "it was there"
    assert len(job_names(yard_shell, target)) == 2


def test_a_mistyped_script_is_refused_before_anything_is_sent(
    project: Path, yard_shell: RunningYard, target: BatchTarget, slipway: Slipway
) -> None:
    err = slipway.refused(*RUN, "--", "python", "trian.py", code=2)
    said = f"error: trian.py is not in {project}, the folder that is sent"
    assert err.splitlines() == [said, "hint: did you mean train.py?"]
    assert slipway(*RUN, *TRAIN, "--dry-run")[0] == 2
    assert (sent(yard_shell, target), job_names(yard_shell, target)) == ([], [])


def test_a_person_who_says_no_to_the_cost_sends_nothing(
    project: Path,
    yard_shell: RunningYard,
    target: BatchTarget,
    slipway: Slipway,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("slipway.jobs.cloud.aws.is_in_yard", lambda: False)
    monkeypatch.setattr("slipway.jobs.platforms.batch.platform.refuse_unready", lambda _: None)
    code, _, err = slipway(*RUN, "--confirm-cost", "1", *TRAIN)
    assert (code, sent(yard_shell, target)) == (1, [])
    assert "but you agreed to 1.00 USD at most" in err


def test_a_dry_run_shows_what_would_be_sent_sends_nothing_and_needs_no_dashes_before_the_command(
    project: Path, yard_shell: RunningYard, target: BatchTarget, slipway: Slipway
) -> None:
    decided = slipway.json(*RUN, "--dry-run", "python", "train.py", "--nodes", "9")
    assert decided["command"] == "python train.py --nodes 9"
    key = f"sources/{decided['source']['sha256']}.tar.gz"
    assert decided["source"]["address"] == f"s3://{target.bucket}/{key}"
    assert decided["request"]["submit"]["nodeOverrides"]["numNodes"] == 2
    assert (sent(yard_shell, target), job_names(yard_shell, target)) == ([], [])
    write(project, {"local.py": "print(1)\n"})
    err = slipway.told(*RUN, "--dry-run", "python", "local.py")
    assert "warning: local.py is not sent: git ignores it" in err


def test_once_a_node_is_one_process_a_node(project: Path, target: BatchTarget, slipway: Slipway) -> None:
    out = slipway(*RUN, "--per-node", "--dry-run", "--", "torchrun", "train.py")[1]
    (override,) = json.loads(out)["request"]["submit"]["nodeOverrides"]["nodePropertyOverrides"]
    environment = {each["name"]: each["value"] for each in override["containerOverrides"]["environment"]}
    assert environment["SLIPWAY_PROCESSES_PER_NODE"] == "1"
    for count in ("1", "8"):  # a command that is told the number of a node's devices would ignore it
        err = slipway.told(*RUN, "--per-node", "--processes-per-node", count, *TRAIN, code=2)
        assert f"once a node, and {count} processes a node were asked for" in err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "Missing argument '-- COMMAND…'"),
        (("--folder", "/no/such/folder", *TRAIN), "/no/such/folder is no folder"),
        (("--limit", "0", *TRAIN), "Invalid value for '--limit'"),
        (
            ("--requirements", "requirements.txt", *TRAIN),
            "requirements requirements.txt is no file that is sent",
        ),
        (("--env", "HF_TOKEN=x", *TRAIN), "--env: HF_TOKEN looks like a secret"),
        (("--env", "RANK=1", *TRAIN), "--env: 'RANK' is no variable that you can set"),
        (("--env", "A=1", "--env", "A=2", *TRAIN), "--env: 'A' is set twice"),
        (("--secret", "KEY=a b", *TRAIN), "--secret: KEY is to be 'a b', which is no name of a secret"),
        (("--secret", "KEY=", *TRAIN), "--secret: KEY is to be '', which is no name of a secret"),
        (("--", "x" * 40_000), "AWS Batch takes 7168 at most"),
    ],
)
def test_what_is_asked_wrongly_is_refused_in_a_line_and_sends_nothing(
    project: Path,
    yard_shell: RunningYard,
    target: BatchTarget,
    slipway: Slipway,
    arguments: tuple[str, ...],
    said: str,
) -> None:
    assert said in slipway.refused(*RUN, *arguments, code=2)
    assert sent(yard_shell, target) == []


def test_a_secret_in_the_folder_is_refused_before_anything_is_asked(
    project: Path, yard_shell: RunningYard, target: BatchTarget, slipway: Slipway
) -> None:
    write(project, {".env": "TOKEN=x\n"})
    code, _, err = slipway(*RUN, *TRAIN)
    assert (code, sent(yard_shell, target)) == (2, [])
    assert "error: these files look like secrets" in err
    assert ".env" in err
    slipway.told(*RUN, "--include-secrets", *TRAIN)


def test_a_job_s_definition_has_the_values_of_variables_and_only_the_names_of_secrets(
    project: Path, target: BatchTarget, slipway: Slipway
) -> None:
    told = ("--env", "WANDB_PROJECT=mine", "--secret", "WANDB_API_KEY=slipway/jobs/wandb", "--dry-run")
    out = slipway.printed(*RUN, *told, *TRAIN)
    assert 'environment={\\"WANDB_PROJECT\\": \\"mine\\"}' in out
    assert 'secrets={\\"WANDB_API_KEY\\": \\"wandb\\"}' in out


def test_a_secret_that_does_not_exist_is_refused_before_nodes_start(
    project: Path, yard_shell: RunningYard, target: BatchTarget, slipway: Slipway
) -> None:
    named = (*RUN, "--secret", "WANDB_API_KEY=wandb", *TRAIN)
    err = slipway.refused(*named, code=2)
    assert f"the secret slipway/jobs/wandb is not in Secrets Manager of {target.region}" in err
    assert (sent(yard_shell, target), job_names(yard_shell, target)) == ([], [])
    yard_shell.client("secretsmanager").create_secret(Name="slipway/jobs/wandb", SecretString="k")
    slipway.told(*named)
