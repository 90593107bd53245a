"""`slipway yard …` works as it is typed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from slipway.jobs.cloud.aws import AccessKey, client_at
from slipway.yard import environment, process
from slipway.yard.commands import account, faults
from slipway.yard.commands import yard as commands
from slipway.yard.endpoint import ACCESS_KEY_ID
from slipway.yard.gateway.faults import FaultKind
from slipway.yard.services.ec2 import empty_amis
from tests.jobs.conftest import Slipway
from tests.yard.asking import refusal
from tests.yard.conftest import REGION, RunningYard


@pytest.fixture
def slipway(
    yard: RunningYard, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Slipway:
    """Runs one command line beside the running yard."""
    monkeypatch.setenv("SLIPWAY_YARD_HOME", str(yard.home))
    return Slipway(capsys, first=("yard",))


def shell(yard: RunningYard, variables: dict[str, str]) -> dict[str, str]:
    """Return the environment of a shell with these variables afterwards."""
    text = environment.script("sh", yard, variables)
    done = subprocess.run(
        ["bash", "-c", f"{text}\nenv -0"],
        env={"PATH": os.environ["PATH"], **variables},
        capture_output=True,
        text=True,
        check=True,
    )
    return dict(entry.split("=", 1) for entry in done.stdout.split("\0") if entry)


def test_status_tells_where_the_yard_is_and_how_far_to_trust_each_type(
    slipway: Slipway, yard: RunningYard
) -> None:
    out = slipway.printed("status")
    assert yard.endpoint in out
    assert "AWS::Batch::JobQueue" in out
    assert "backed by moto" in out
    assert "ec2:CreatePlacementGroup" in out


def test_status_as_json_counts_what_is_deployed(slipway: Slipway, yard: RunningYard) -> None:
    template = {"Resources": {"Topic": {"Type": "AWS::SNS::Topic"}}}
    cloudformation = yard.client("cloudformation", "eu-west-1")
    cloudformation.create_stack(StackName="one", TemplateBody=json.dumps(template))
    cloudformation.get_waiter("stack_create_complete").wait(
        StackName="one", WaiterConfig={"Delay": 0.1, "MaxAttempts": 1200}
    )
    found = slipway.json("status", "--json")
    assert found["stacks"] == [{"region": "eu-west-1", "name": "one", "status": "CREATE_COMPLETE"}]
    assert found["endpoint"] == yard.endpoint
    assert found["memory_mib"] > 10
    assert set(found["resource_types"].values()) <= {"behavioural", "backed by moto", "recorded only"}


def test_up_beside_a_yard_says_that_it_is_up_already(slipway: Slipway, yard: RunningYard) -> None:
    assert f"the yard is already up at {yard.endpoint}" in slipway.told("up")


def test_what_env_prints_leads_every_tool_to_the_yard(slipway: Slipway, yard: RunningYard) -> None:
    assert f"export AWS_ENDPOINT_URL={yard.endpoint}" in slipway.printed("env")
    before = {
        "AWS_PROFILE": "work",
        "AWS_SESSION_TOKEN": "token",
        "AWS_ENDPOINT_URL_S3": "https://elsewhere",
        "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS": "true",
        "AWS_REGION": "eu-west-1",
        "HTTP_PROXY": "http://proxy:8080",
        "NO_PROXY": "intern",
    }
    after = shell(yard, before)
    assert (after["AWS_ACCESS_KEY_ID"], after["AWS_SECRET_ACCESS_KEY"]) == ("SLIPWAYYARD", yard.secret)
    assert after["AWS_REGION"] == after["AWS_DEFAULT_REGION"] == "eu-west-1"
    assert after["NO_PROXY"] == after["no_proxy"] == "intern,127.0.0.1,localhost"
    gone = {"AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL_S3", "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS"}
    assert not gone & set(after)


def test_env_speaks_fish(slipway: Slipway, yard: RunningYard) -> None:
    _, out, _ = slipway("env", "--shell", "fish")
    assert f"set -gx AWS_ENDPOINT_URL '{yard.endpoint}'" in out
    assert "set -e AWS_PROFILE" in out


def test_a_fault_is_scripted_listed_and_cleared(slipway: Slipway, yard: RunningYard) -> None:
    assert "ecs:ListClusters, 2 times" in slipway.told(
        "faults", "add", "ecs", "ListClusters", "throttle", "--times", "2"
    )
    assert refusal(yard.client("ecs").list_clusters)["Code"] == "ThrottlingException"
    (rule,) = slipway.json("faults", "--json")["calls"]
    assert (rule["service"], rule["times"], rule["struck"]) == ("ecs", 2, 1)
    slipway.told("faults", "clear")
    assert yard.client("ecs").list_clusters()["clusterArns"] == []


def test_answers_are_scripted_from_a_file(slipway: Slipway, yard: RunningYard, tmp_path: Path) -> None:
    body = tmp_path / "answers.json"
    body.write_text('[{"clusterArns": ["a"]}, {"clusterArns": ["b"]}]')
    slipway.told("faults", "add", "ecs", "ListClusters", "respond", "--body", str(body))
    clusters = yard.client("ecs").list_clusters
    assert [clusters()["clusterArns"] for _ in range(3)] == [["a"], ["b"], []]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("batch", "SubmitJb", "throttle"), "batch has no operation 'SubmitJb'; it has SubmitJob"),
        (("batch", "SubmitJob", "respond"), "with 0 results in body"),
        (("batch", "SubmitJob", "respond", "--body", "{file}"), "is not a JSON list of objects"),
    ],
)
def test_a_fault_that_could_never_strike_is_refused_without_a_traceback(
    slipway: Slipway, tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    (tmp_path / "body.json").write_text("{}")
    given = [argument.format(file=tmp_path / "body.json") for argument in arguments]
    err = slipway.told("faults", "add", *given, code=1)
    assert said in err
    assert "Traceback" not in err


def test_a_fifo_or_a_missing_file_of_answers_is_refused_at_once(slipway: Slipway, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    for name, said in (("fifo", "is a FIFO, and must be a regular file"), ("none", "does not exist")):
        given = ("batch", "SubmitJob", "respond", "--body", str(tmp_path / name))
        assert said in slipway.told("faults", "add", *given, code=2)


def test_a_job_given_for_a_host_is_told_how_its_node_is_killed(slipway: Slipway) -> None:
    err = slipway.refused("kill-node", "my-training", code=1)
    assert err.startswith("error: no host 'my-training': there are no hosts")
    assert err.endswith("hint: for a node of a job: slipway yard kill-node my-training 1\n")


def test_the_log_names_every_call_and_its_status(slipway: Slipway, yard: RunningYard) -> None:
    yard.client("ecs").list_clusters()
    assert "ecs:ListClusters us-east-1 -> 200" in slipway.printed("logs")


def test_a_log_that_is_followed_through_a_pipe_comes_at_once_and_ends_with_its_yard(tmp_path: Path) -> None:
    up = process.up(folder=tmp_path / "home")
    following = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "from slipway.jobs.cli.cli import main; main()",
            "yard",
            "logs",
            "--follow",
        ],
        env={**os.environ, "SLIPWAY_YARD_HOME": str(tmp_path / "home"), "PYTHONUNBUFFERED": ""},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert following.stdout
    assert "isolation: " in following.stdout.readline()
    assert f"listening at {up.state.endpoint}" in following.stdout.readline()
    client_at(up.state.endpoint, "ecs", REGION, AccessKey(ACCESS_KEY_ID, up.state.secret)).list_clusters()
    assert "ecs:ListClusters" in following.stdout.readline()
    process.down(folder=tmp_path / "home")
    rest, _ = following.communicate()
    assert (following.returncode, "Traceback" in rest) == (0, False)


@pytest.mark.parametrize("arguments", [("status",), ("env",), ("logs",), ("faults",)])
def test_without_a_yard_the_command_says_how_to_get_one(
    slipway: Slipway, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    monkeypatch.setenv("SLIPWAY_YARD_HOME", str(tmp_path / "none"))
    assert "slipway yard up" in slipway.refused(*arguments)
    assert not (tmp_path / "none").exists()


def test_a_yard_recorded_elsewhere_than_on_this_machine_is_not_asked(
    slipway: Slipway, yard: RunningYard, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    record = json.loads((yard.home / "state.json").read_text())
    (tmp_path / "state.json").write_text(json.dumps({**record, "endpoint": "https://ec2.amazonaws.com"}))
    monkeypatch.setenv("SLIPWAY_YARD_HOME", str(tmp_path))
    assert "is not on this machine" in slipway.told("faults", "clear", code=1)


def test_the_choices_of_the_command_line_are_those_of_the_yard() -> None:
    assert tuple(FaultKind) == faults.FAULT_KINDS
    assert tuple(environment.SHELLS) == commands.SHELLS


def test_the_command_imports_nothing_heavy() -> None:
    code = "import sys; import slipway.yard.commands.yard, slipway.yard.process; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert not loaded & {"moto", "boto3", "botocore", "yaml", "aws_cdk", "regex", "werkzeug"}


def test_faults_are_switched_listed_and_cleared_by_name(slipway: Slipway, yard: RunningYard) -> None:
    assert "faults: server-errors=100, launch-delay=20" in slipway.told(
        "faults", "set", "server-errors=100", "launch-delay", "--seed", "7"
    )
    assert refusal(yard.client("ecs").list_clusters)["status"] == 500
    listed = slipway.json("faults", "--json")
    rows = {row["name"]: row for row in listed["switches"]}
    assert listed["seed"] == 7
    assert (rows["server-errors"]["value"], rows["server-errors"]["struck"]) == (100, 1)
    assert rows["packet-loss"]["value"] == 0
    assert "what it does" in slipway("faults")[1]
    slipway.told("faults", "clear", "server-errors")
    assert yard.client("ecs").list_clusters()["clusterArns"] == []
    slipway.told("faults", "clear")
    assert all(row["value"] == 0 for row in slipway.json("faults", "--json")["switches"])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("faults", "set", "packet-los"), "there is no fault 'packet-los'; did you mean packet-loss?"),
        (("faults", "set", "packet-loss=91"), "allowed are 0 (off) to 90 %"),
        (("faults", "set", "dns", "--seed", "x"), "the seed is 'x'; allowed are whole numbers"),
        (("faults", "clear", "dsn"), "there is no fault 'dsn'; did you mean dns?"),
        (("up", "--chaos", "seven"), "the seed is 'seven'; allowed are whole numbers"),
        (("up", "--fault", "dns=many"), "fault 'dns' is 'many', which is no number"),
        (("up", "--chaos", "7"), "so it cannot start with other faults"),
    ],
)
def test_a_fault_or_a_seed_that_cannot_be_is_refused_in_one_line(
    slipway: Slipway, arguments: tuple[str, ...], said: str
) -> None:
    err = slipway.refused(*arguments)
    assert said in err
    assert "Traceback" not in err
    assert len([line for line in err.splitlines() if line.startswith("error: ")]) == 1


def test_a_yard_that_starts_in_chaos_says_its_seed_and_keeps_it(tmp_path: Path) -> None:
    environment = {**os.environ, "SLIPWAY_YARD_HOME": str(tmp_path / "home")}
    program = [sys.executable, "-c", "from slipway.jobs.cli.cli import main; main()", "yard"]

    def yard(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*program, *arguments], env=environment, capture_output=True, text=True, check=True
        )

    try:
        said = yard("up", "--chaos", "7", "--fault", "packet-loss=0").stderr
        assert "faults, of seed 7: consistency=1" in said
        listed = json.loads(yard("faults", "--json").stdout)
        assert listed["seed"] == 7
        on = {row["name"] for row in listed["switches"] if row["value"]}
        assert "packet-loss" not in on
        assert {"throttling", "launch-delay", "spot-interruptions"} <= on
    finally:
        yard("down")


def test_the_amis_that_help_names_are_those_that_can_stand_in() -> None:
    assert sorted(account.IMAGES) == sorted(empty_amis.IMAGES)


def test_an_ami_stands_in_and_a_quota_is_granted_by_a_command_each(slipway: Slipway) -> None:
    assert "stands in for gaudi-ecs in us-east-1" in slipway.told("stand-in", "gaudi-ecs")
    assert "'Running On-Demand DL instances' is 192 vCPUs" in slipway.told("grant-quota", "L-6E869C2A", "192")
    assert "L-1216C47A" in slipway.told("grant-quota", "L-00000000", "192", code=1)
