"""A user's command is one request on every platform, and reaches the container as it was typed."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slipway.containers.recipes.command.config import CODE_SETTINGS, MODULE, CommandConfig, decode_arguments
from slipway.containers.runtime.launch.sagemaker_entry import launcher_words
from slipway.jobs.code.command_job import (
    OwnCommand,
    command_settings,
    folder_name,
    refuse_mistakes,
    refuse_requirements,
    script_of,
)
from slipway.jobs.code.folder import CannotShip, read_folder
from slipway.jobs.code.packing import project_url
from slipway.jobs.platforms.batch import request as batch
from slipway.jobs.platforms.mpi import request as mpi
from slipway.jobs.platforms.sagemaker import request as sagemaker
from slipway.jobs.platforms.sagemaker.request import FileSettings
from slipway.jobs.platforms.sending import refuse_malformed
from slipway.jobs.platforms.slurm import request as slurm
from slipway.jobs.words import mpi as mpi_job
from slipway.jobs.words import slurm as slurm_job
from slipway.jobs.words.job import DoesNotFit, Job
from slipway.jobs.words.launch_environment import setting_words
from slipway.jobs.words.text import printable
from tests.jobs.code.projects import write
from tests.jobs.words.test_targets import MPI_TARGET, SAGEMAKER_TARGET, SLURM_TARGET, TARGET

DIGEST, CODE = "d" * 64, "c" * 64
ODD = ("python", "tr ain.py", "$(id)", "`id`", "Ref::x", "é\u202e", "'\"\\", "", "a\nb", "%41", "caf\udce9")


def job_on(target: Any, words: tuple[str, ...] = ODD) -> Job:
    settings = command_settings(OwnCommand(words=words), project_url(DIGEST, target))
    return Job(name="own", recipe="command", nodes=2, settings=settings)


def config_of(words: list[str]) -> CommandConfig:
    assert set(words[::2]) == {"--set"}
    return decode_arguments(words[1::2])


def on_batch() -> CommandConfig:
    submit = batch.build_request(job_on(TARGET), TARGET, module=MODULE).submit
    refuse_malformed("batch", "SubmitJob", submit)
    (override,) = submit["nodeOverrides"]["nodePropertyOverrides"]
    words = override["containerOverrides"]["command"]
    assert not any("Ref::" in word for word in words)
    return config_of(words[words.index("--") + 1 :])


def on_mpi() -> CommandConfig:
    request = mpi.build_request(job_on(MPI_TARGET), MPI_TARGET, module=MODULE, code=CODE)
    return config_of(list(mpi_job.decode(request.put["Body"], where="here").arguments))


def on_slurm() -> CommandConfig:
    request = slurm.build_request(job_on(SLURM_TARGET), SLURM_TARGET, module=MODULE, code=CODE)
    job = slurm_job.decode(request.put["Body"], where="here")
    assert len(job.batches) == 1, "nothing is compiled first"
    return config_of(list(job.arguments))


def on_sagemaker() -> CommandConfig:
    target = SAGEMAKER_TARGET
    create = sagemaker.build_request(
        job_on(target), target, module=MODULE, code=CODE, files=FileSettings(code=CODE_SETTINGS)
    ).create
    refuse_malformed("sagemaker", "CreateTrainingJob", create)
    given = {name: json.loads(value) for name, value in create["HyperParameters"].items()}
    own = {name: value for name, value in given.items() if not name.startswith("sagemaker_")}
    words = launcher_words({"SM_HPS": json.dumps(own), **create["Environment"]})
    assert words[:3] == ["--module", MODULE, "--"]
    return config_of(words[3:])


@pytest.mark.parametrize("arrived", [on_batch, on_mpi, on_slurm, on_sagemaker])
def test_the_frozen_request_carries_the_command_and_the_folder_as_they_are(arrived: Any) -> None:
    config = arrived()
    assert (config.command, config.digest) == (ODD, DIGEST)


@pytest.mark.parametrize("target", [TARGET, MPI_TARGET, SLURM_TARGET])
def test_nodes_are_told_where_the_folder_lies(target: Any) -> None:
    (place,) = (word for word in setting_words(job_on(target)) if word.startswith("source="))
    assert place == f"source=s3://{target.bucket}/sources/{DIGEST}.tar.gz"


def test_sagemaker_brings_the_folder_and_the_data_folder_stays_what_it_is() -> None:
    target = SAGEMAKER_TARGET
    plain = sagemaker.build_request(Job(name="own", recipe="smoke", nodes=2), target, module="m", code=CODE)
    create = sagemaker.build_request(
        job_on(target), target, module=MODULE, code=CODE, files=FileSettings(code=CODE_SETTINGS)
    ).create
    channels = {channel["ChannelName"]: channel["DataSource"] for channel in create["InputDataConfig"]}
    assert channels["source"]["S3DataSource"]["S3Uri"] == f"s3://{target.bucket}/sources/{DIGEST}.tar.gz"
    assert json.loads(create["HyperParameters"]["source"]) == f"/opt/ml/input/data/source/{DIGEST}.tar.gz"
    assert create["Environment"].get("SLIPWAY_DATA") == plain.create["Environment"].get("SLIPWAY_DATA")


def test_another_folder_or_another_command_is_another_job() -> None:
    jobs = [job_on(MPI_TARGET), job_on(MPI_TARGET, ("true",))]
    other = replace(jobs[0], settings={**jobs[0].settings, "source": project_url("e" * 64, MPI_TARGET)})
    first, *others = [
        mpi.build_request(job, MPI_TARGET, module=MODULE, code=CODE).name for job in (jobs[0], *jobs, other)
    ]
    assert (others[0], len(set(others))) == (first, 3)


@pytest.mark.parametrize(
    ("folder", "name"), [("my project", "my-project"), ("größe", "gr-e"), ("..", None), ("_", "command")]
)
def test_a_job_is_named_after_its_folder(tmp_path: Path, folder: str, name: str | None) -> None:
    found = folder_name(tmp_path / folder)
    assert found == (name or folder_name(tmp_path.parent))
    Job(name=found, recipe="command", nodes=1)


def test_requirements_have_to_travel_and_nodes_without_internet_need_wheels(tmp_path: Path) -> None:
    folder = read_folder(
        write(
            tmp_path, {"a.txt": "torch\n", "b.txt": "--no-index\nx\n", ".gitignore": "c.txt\n", "c.txt": ""}
        )
    )
    online = replace(TARGET, has_internet=True)
    refuse_requirements("a.txt", folder, online)
    refuse_requirements("b.txt", folder, TARGET)
    with pytest.raises(DoesNotFit, match=r"reach no internet, so that pip could not install a\.txt"):
        refuse_requirements("a.txt", folder, TARGET)
    refuse_requirements("./a.txt", folder, online)
    named = OwnCommand(words=("true",), requirements="./a.txt")
    assert command_settings(named, "s3://b/a")["requirements"] == "a.txt"
    for lost in ("c.txt", "../a.txt", "no\x1b.txt"):
        with pytest.raises(CannotShip) as refusal:
            refuse_requirements(lost, folder, online)
        assert printable(lost) in refusal.value.message


@pytest.mark.parametrize(
    ("words", "script"),
    [
        ("python train.py --lr 0.1", "train.py"),
        ("python3.11 -u -W ignore src/train.py", "src/train.py"),
        ("env A=b python train.py", "train.py"),
        ("A=b ./prepare.sh", "./prepare.sh"),
        ("torchrun --nproc-per-node 8 train.py", "train.py"),
        ("python -m torch.distributed.run --standalone train.py", "train.py"),
        ("accelerate launch --config_file a.yaml train.py --data b.py", "train.py"),
        ("bash -eu run.sh", "run.sh"),
        ("bash -o pipefail run.sh", "run.sh"),
        ("bash -c x.py", None),
        ("python -m package.train", None),
        ("python -um package.train", None),
        ("python -c pass", None),
        ("python -", None),
        ("torchrun -m package.train --config a.py", None),
        ("nvidia-smi", None),
        ("env", None),
    ],
)
def test_the_script_of_a_command_is_told_from_its_other_words(words: str, script: str | None) -> None:
    assert script_of(words.split()) == script


@pytest.mark.parametrize(
    ("words", "said", "hint"),
    [
        ("python trian.py", "trian.py is not in ", "did you mean train.py?"),
        ("python Train.py", "Train.py is not in ", "did you mean train.py?"),
        ("./rum.sh", "rum.sh is not in ", "did you mean run.sh?"),
        ("python -u bert/fit.sh.py", "bert/fit.sh.py is not in ", "give --folder the folder of your code"),
        ("python train.py --dry-run", "--dry-run stands behind `--` and would go to python", "before `--`"),
        ("python train.py --on=c6i", "--on stands behind `--`", "bash -c"),
        ("'python train.py'", "'python train.py' is one word", "leave out the quotes"),
        ("./train.py", "train.py is not executable", "chmod +x train.py; or name its interpreter: python"),
        ("python {folder}/train.py", "/train.py is a path of this machine", "write train.py: "),
        ("python train.py --config={folder}/c.yaml", "c.yaml is a path of this machine", "write c.yaml: "),
        ("python {folder}.link/train.py", "/train.py is a path of this machine", "write train.py: "),
        ("{folder}/.venv/bin/python x.py", "/.venv/bin/python is a path of this", "what the nodes have"),
        ("bash dos.sh", "dos.sh has the line ends of Windows (CRLF)", r"perl -pi -e 's/\r$//' dos.sh"),
        ("torchrun train.py", "torchrun starts the processes of a node", "--per-node"),
        ("env A=b python -m torch.distributed.run train.py", "torchrun starts the", "per_node = true"),
        ("accelerate launch train.py", "accelerate starts the processes of a node", "--per-node"),
        ("/opt/venv/bin/torchrun train.py", "torchrun starts the processes of a node", "--per-node"),
    ],
)
def test_what_is_mistyped_is_refused_before_anything_is_sent(
    tmp_path: Path, words: str, said: str, hint: str
) -> None:
    texts = {"train.py": "print('a switch is on')", "run.sh": "", "c.yaml": ""}
    folder = read_folder(write(tmp_path, {**texts, "dos.sh": "set -e\r\n"}))
    write(tmp_path, {"Train.py": ""})  # as a Mac's disk finds train.py by this name, too
    tmp_path.with_name(f"{tmp_path.name}.link").symlink_to(tmp_path)
    with pytest.raises(CannotShip) as refusal:
        refuse_mistakes(OwnCommand(words=tuple(shlex.split(words.format(folder=tmp_path)))), folder)
    assert said in refusal.value.message
    assert hint in refusal.value.hint


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("python train.py --dry-run", "parser.add_argument('--dry-run')"),
        ("python train.py --dry-run", "def main(dry_run: bool) -> None: ..."),
        ("python train.py --follow", "class Config:\n    follow: bool"),
        ("python train.py --name a --data b --nodes 2", ""),
        ("python /opt/slipway/train.py", ""),
        ("bash -c 'python trian.py --dry-run'", ""),
        ("torchrun train.py", ""),
    ],
)
def test_what_a_program_takes_for_its_own_is_left_to_it(tmp_path: Path, words: str, text: str) -> None:
    folder = read_folder(write(tmp_path, {"train.py": text}))
    refuse_mistakes(OwnCommand(words=tuple(shlex.split(words)), is_per_node="torchrun" in words), folder)
