"""A node reports its state, and ends itself if it does not join its cluster."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest

from slipway.infra.declare.types import FileSystem
from slipway.infra.patterns.nodes.boot import (
    ECS_MEMBERSHIP,
    LOGIN_MEMBERSHIP,
    MPI_MEMBERSHIP,
    SLURM_MEMBERSHIP,
)
from slipway.jobs.words.names import NOT_JOINED_METRIC, REASONS
from tests.infra.boot.node import SCRIPTS, Node, mpi_parameters, parameters, slurm_parameters

REGISTERED = '{"Cluster":"c","ContainerInstanceArn":"arn:aws:ecs:us-east-1:1:container-instance/c/1"}'


@pytest.mark.parametrize(
    ("tasks", "idle"),
    [
        ('{"Tasks":[]}', "1"),
        ("", "1"),
        ('{"Tasks":[{"DesiredStatus":"RUNNING","KnownStatus":"RUNNING"}]}', "0"),
        ('{"Tasks":[{"DesiredStatus":"RUNNING","KnownStatus":"PENDING"}]}', "0"),
        ('{"Tasks":[{"DesiredStatus":"STOPPED","KnownStatus":"STOPPED"}]}', "1"),
    ],
)
def test_a_node_is_idle_when_it_has_no_task_to_run(tmp_path: Path, tasks: str, idle: str) -> None:
    node = Node(tmp_path, parameters(), curl=tasks)
    assert node.run("report_idle.sh").returncode == 0
    (report,) = node.calls("aws")
    assert report.endswith(f"--value {idle}")
    assert "--namespace Slipway --metric-name IdleNodes --dimensions Cluster=dl1" in report


def test_a_node_whose_only_aws_command_is_in_its_virtual_environment_reports_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ubuntu 24.04 has no package of the AWS CLI, and a unit's PATH lacks its folder."""
    (tmp_path / "usr").mkdir()
    for name in ("bash", "cat", "dirname", "grep", "python3"):
        (tmp_path / "usr" / name).symlink_to(str(shutil.which(name)))
    monkeypatch.setenv("PATH", str(tmp_path / "usr"))
    node = Node(tmp_path, parameters(), curl='{"Tasks":[]}')
    (tmp_path / "venv" / "bin").mkdir(parents=True)
    (tmp_path / "aws").rename(tmp_path / "venv" / "bin" / "aws")
    assert node.run("report_idle.sh").returncode == 0
    assert node.calls("aws")[0].endswith("--value 1")


def test_a_node_whose_ranks_have_every_processor_waits_for_its_credentials(tmp_path: Path) -> None:
    """The AWS CLI asks the metadata service once by default, for one second."""
    node = Node(tmp_path, parameters())
    told = tmp_path / "told"
    (tmp_path / "aws").write_text(f"#!/bin/sh\nenv | grep ^AWS_METADATA | sort >{told}\n", encoding="utf-8")
    assert node.run("report_idle.sh").returncode == 0
    assert told.read_text().split() == [
        "AWS_METADATA_SERVICE_NUM_ATTEMPTS=3",
        "AWS_METADATA_SERVICE_TIMEOUT=10",
    ]


def test_a_node_whose_agent_does_not_answer_is_idle(tmp_path: Path) -> None:
    node = Node(tmp_path, parameters())
    node.program("curl", code=7)
    assert node.run("report_idle.sh").returncode == 0
    assert node.calls("aws")[0].endswith("--value 1")


@pytest.mark.parametrize("script", ["boot.sh", "report_idle.sh", "watch_join.sh"])
def test_a_script_reads_once_what_the_node_was_told(tmp_path: Path, script: str) -> None:
    """Each start of Python takes a processor from the ranks, every minute or every five."""
    node = Node(tmp_path, parameters(FileSystem.EFS))
    (tmp_path / "python3").write_text(
        f'#!/bin/bash\necho "python3 $*" >> "{node.log}"\nexec "{sys.executable}" "$@"\n', encoding="utf-8"
    )
    (tmp_path / "python3").chmod(0o755)
    assert node.run(script).returncode == 0
    assert len(node.calls("python3")) == 1


@pytest.mark.parametrize(
    "name", ["$(touch {0}/ran)", "`touch {0}/ran`", "'; touch {0}/ran; '", '"two words"\n']
)
def test_what_a_node_was_told_is_never_taken_for_shell(tmp_path: Path, name: str) -> None:
    hostile = name.format(tmp_path)
    node = Node(tmp_path, {**parameters(), "cluster": hostile, hostile: hostile})
    (tmp_path / "aws").write_text(f'#!/bin/bash\nprintf "%s\\0" "$@" > {tmp_path}/told\n', encoding="utf-8")
    assert node.run("report_idle.sh").returncode == 0
    assert f"Cluster={hostile.rstrip()}" in (tmp_path / "told").read_text(encoding="utf-8").split("\0")
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("script", ["report_idle.sh", "watch_join.sh"])
def test_a_script_that_cannot_read_what_the_node_was_told_fails_and_tells_nobody_anything(
    tmp_path: Path, script: str
) -> None:
    node = Node(tmp_path, parameters())
    (tmp_path / "node.json").write_text('{"cluster": ', encoding="utf-8")
    done = node.run(script)
    assert done.returncode != 0
    assert "JSONDecodeError" in done.stderr
    assert (node.calls("aws"), node.calls("systemctl")) == ([], [])


@pytest.mark.parametrize(("minutes", "idle"), [(1, "0"), (14, "0"), (15, "1")])
def test_a_node_that_has_just_booted_does_not_count_as_idle(tmp_path: Path, minutes: int, idle: str) -> None:
    node = Node(tmp_path, parameters())
    node.up(minutes)
    assert node.run("report_idle.sh").returncode == 0
    assert node.calls("aws")[0].endswith(f"--value {idle}")


@pytest.mark.parametrize(
    ("environment", "idle"),
    [("HOME=/root\0SLIPWAY_JOB=glue-1\0", "0"), ("NOT_SLIPWAY_JOB=glue-1\0", "1"), ("", "1")],
)
def test_a_machine_is_at_work_while_a_process_of_a_job_is_there(
    tmp_path: Path, environment: str, idle: str
) -> None:
    node = Node(tmp_path, mpi_parameters())
    for process, text in {"1": "HOME=/\0", "4711": environment}.items():
        (tmp_path / "proc" / process).mkdir(parents=True)
        (tmp_path / "proc" / process / "environ").write_text(text)
    assert node.run("report_idle.sh").returncode == 0
    assert node.calls("aws")[0].endswith(f"--value {idle}")
    assert not node.calls("curl")


def test_a_node_whose_agent_has_registered_is_left_alone_until_its_next_boot(tmp_path: Path) -> None:
    node = Node(tmp_path, parameters(), curl=REGISTERED)
    node.up(31)
    assert node.run("watch_join.sh").returncode == 0
    node.program("curl", code=7)  # the agent starts again, as it does for an update, while a job runs
    assert node.run("watch_join.sh").returncode == 0
    assert (node.calls("aws"), node.calls("systemctl")) == ([], [])


def test_a_node_that_slipway_node_has_joined_is_left_alone(tmp_path: Path) -> None:
    node = Node(tmp_path, mpi_parameters())
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "joined").touch()
    assert node.run("watch_join.sh").returncode == 0
    assert (node.calls("aws"), node.calls("systemctl")) == ([], [])


@pytest.mark.parametrize("answer", ['{"ContainerInstanceArn":null}', ""])
def test_a_node_that_is_late_to_join_says_so_and_is_not_ended_before_its_time(
    tmp_path: Path, answer: str
) -> None:
    node = Node(tmp_path, parameters(), curl=answer)
    node.up(29)
    done = node.run("watch_join.sh")
    assert done.returncode == 0
    assert "has not joined dl1 in 29 minutes, for want of ecs-agent; it ends itself after 30" in done.stdout
    (told,) = node.calls("aws")
    assert told.startswith("cloudwatch put-metric-data --region us-east-1 --namespace Slipway")
    assert node.calls("systemctl") == []


def test_a_node_of_batch_that_never_joins_ends_itself(tmp_path: Path) -> None:
    node = Node(tmp_path, parameters())
    node.up(30)
    assert node.run("watch_join.sh").returncode == 0
    assert node.calls("systemctl") == ["poweroff"]


def test_a_node_of_a_group_takes_itself_out_so_that_no_other_fails_in_its_place(tmp_path: Path) -> None:
    node = Node(tmp_path, mpi_parameters())
    node.up(30)
    assert node.run("watch_join.sh").returncode == 0
    assert node.calls("aws")[-1] == (
        "autoscaling terminate-instance-in-auto-scaling-group --region us-east-1 "
        "--instance-id i-0123456789abcdef0 --should-decrement-desired-capacity"
    )
    assert node.calls("systemctl") == []


def test_a_node_that_aws_does_not_answer_ends_itself_all_the_same(tmp_path: Path) -> None:
    node = Node(tmp_path, mpi_parameters())
    node.program("aws", code=254)
    node.up(30)
    assert node.run("watch_join.sh").returncode == 0
    assert node.calls("systemctl") == ["poweroff"]


@pytest.mark.parametrize("reason", REASONS)
def test_every_reason_is_one_that_people_are_told_in_words(reason: str) -> None:
    known = "".join(path.read_text(encoding="utf-8") for path in SCRIPTS.glob("*.sh"))
    assert f"during {reason} " in known or reason in (
        ECS_MEMBERSHIP.by,
        MPI_MEMBERSHIP.by,
        SLURM_MEMBERSHIP.by,
    )


def test_what_is_told_to_cloudwatch_is_one_value_for_the_alarm_and_one_with_the_reason(
    tmp_path: Path,
) -> None:
    node = Node(tmp_path, parameters(FileSystem.EFS))
    node.program("mount", code=32)
    node.run("boot.sh")
    node.program("aws", answer="")
    (tmp_path / "aws").write_text(f'#!/bin/bash\necho "${{@: -1}}" > {tmp_path}/told\n', encoding="utf-8")
    node.run("watch_join.sh")
    told = json.loads((tmp_path / "told").read_text(encoding="utf-8"))
    cluster = {"Name": "Cluster", "Value": "dl1"}
    assert [each["Dimensions"] for each in told] == [
        [cluster],
        [cluster, {"Name": "Reason", "Value": "shared-files"}],
    ]
    assert {(each["MetricName"], each["Value"]) for each in told} == {(NOT_JOINED_METRIC, 1)}


@pytest.mark.parametrize(("running", "idle"), [("slurmstepd: [7", "0"), ("slurmd", "1"), ("bash", "1")])
def test_a_node_of_slurm_is_at_work_while_a_step_of_any_job_runs_there(
    tmp_path: Path, running: str, idle: str
) -> None:
    """The article's own scripts do not set the name of their job."""
    node = Node(tmp_path, slurm_parameters())
    (tmp_path / "proc" / "4711").mkdir(parents=True)
    (tmp_path / "proc" / "4711" / "comm").write_text(f"{running}\n")
    assert node.run("report_idle.sh").returncode == 0
    assert node.calls("aws")[0].endswith(f"--value {idle}")


def test_a_login_node_has_no_jobs_and_tells_of_no_idleness(tmp_path: Path) -> None:
    node = Node(tmp_path, parameters(membership=LOGIN_MEMBERSHIP))
    assert node.run("report_idle.sh").returncode == 0
    assert node.calls("aws") == []


@pytest.mark.parametrize(
    ("program", "unit"),
    [
        ("slurmd", "slurmd-25.05.service"),  # of AWS's installer
        ("slurmd", "slurmd.service"),  # of Debian's package
        ("sackd", "sackd-25.05.service"),
        ("sackd", "slurm-25.05-sackd.service"),
        ("slurmd", "aws-pcs-agent.service"),
        ("slurmd", "slurmd-25.05.service/system"),  # a folder that systemd delegates to Slurm
    ],
)
def test_a_node_whose_slurm_runs_has_joined_whatever_its_unit_is_called(
    tmp_path: Path, program: str, unit: str
) -> None:
    node = Node(tmp_path, slurm_parameters())
    node.runs(program, f"/system.slice/{unit}")
    node.active(unit.partition("/")[0])
    node.up(30)
    assert node.run("watch_join.sh").returncode == 0
    assert (tmp_path / "state" / "joined").exists()
    assert "poweroff" not in node.calls("systemctl")


@pytest.mark.parametrize("group", ["/system.slice/slurmd-25.05.service", "/user.slice/session-3.scope"])
def test_a_node_on_which_pcs_starts_no_slurm_ends_itself(tmp_path: Path, group: str) -> None:
    """A daemon that waits for its controller has no active unit yet; one started by hand has none."""
    node = Node(tmp_path, slurm_parameters())
    node.runs("slurmd", group)
    node.active()
    node.up(30)
    done = node.run("watch_join.sh")
    assert "for want of pcs-agent; it ends itself after 30" in done.stdout
    assert node.calls("systemctl")[-1] == "poweroff"


@pytest.mark.parametrize("kind", ["batch", "mpi", "slurm"])
def test_a_node_with_work_is_never_ended_whoever_did_not_see_it_join(tmp_path: Path, kind: str) -> None:
    told = {"batch": parameters(), "mpi": mpi_parameters(), "slurm": slurm_parameters()}[kind]
    node = Node(tmp_path, told, curl='{"Tasks":[{"DesiredStatus":"RUNNING"}]}' if kind == "batch" else "")
    (tmp_path / "proc" / "4711").mkdir()
    (tmp_path / "proc" / "4711" / "comm").write_text("slurmstepd: [7\n" if kind == "slurm" else "python\n")
    (tmp_path / "proc" / "4711" / "environ").write_text("SLIPWAY_JOB=glue-1\0" if kind == "mpi" else "")
    node.active()
    node.up(30)
    assert node.run("watch_join.sh").returncode == 0
    assert (node.calls("aws"), "poweroff" in node.calls("systemctl")) == ([], False)
