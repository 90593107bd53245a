"""`slipway ssh` refuses what cannot work, and prints an ssh config."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import pytest

from slipway.jobs.cli.ssh import ssh_config
from slipway.jobs.cloud import aws
from slipway.jobs.clusters.machines import EnteredNode, EnteredNodes
from slipway.jobs.words.errors import SlipwayError
from tests.jobs.conftest import Slipway
from tests.jobs.words.test_targets import MPI_TARGET

NODES = EnteredNodes(
    of="bert-0a1b",
    target=MPI_TARGET,
    listed=[
        EnteredNode(number=number, name=f"ip-{number}", instance_id=f"i-{number}", user="slipway")
        for number in range(2)
    ],
)


@pytest.fixture
def key(tmp_path: Path) -> Path:
    folder = tmp_path / "50% of keys"
    folder.mkdir()
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / "mine")], check=True)
    return folder / "mine.pub"


def understood(text: str, host: str, tmp_path: Path) -> dict[str, str]:
    """Return the settings that ssh itself reads in the config for a host."""
    file = tmp_path / "config"
    file.write_text(text)
    asked = ["ssh", "-F", str(file), "-G", host]
    lines = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.splitlines()
    return dict(line.split(" ", 1) for line in lines if " " in line)


def test_ssh_understands_the_config_of_each_node(
    key: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(aws, "is_in_yard", lambda: False)
    monkeypatch.setenv("AWS_PROFILE", "me")
    text = ssh_config(NODES, "bert", key)
    said = understood(text, "slipway-bert-1", tmp_path)
    assert (said["hostname"], said["user"], said["identitiesonly"]) == ("i-1", "slipway", "yes")
    assert said["identityfile"].replace("%%", "%") == str(key.with_suffix(""))
    env, profile, program, *words = shlex.split(said["proxycommand"].replace("%%", "%"))
    assert (env, profile, Path(program).name) == ("env", "AWS_PROFILE=me", "slipway")
    assert words == ["ssh", "c6i", "i-1", "--stdio", "--key", str(key), "--region", "us-east-1"]


def test_in_the_yard_the_config_asks_for_the_yard_s_own_variables_and_holds_no_secret(
    key: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(aws, "is_in_yard", lambda: True)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s3cret")
    text = ssh_config(NODES, "c6i", key)
    sh, option, script = shlex.split(understood(text, "slipway-c6i-0", tmp_path)["proxycommand"])
    assert (sh, option) == ("sh", "-c")
    assert script.startswith('eval "$(')
    assert "yard env)" in script
    assert "s3cret" not in text


@pytest.mark.parametrize("kind", ["private", "ecdsa", "two"])
def test_what_is_no_public_key_for_instance_connect_is_refused_before_a_config_is_printed(
    key: Path, kind: str
) -> None:
    given = key.with_suffix("") if kind == "private" else key.with_name("other.pub")
    if kind == "ecdsa":
        given.write_text(f"ecdsa-sha2-nistp256 {'A' * 100} me\n")
    if kind == "two":
        given.write_text(key.read_text() * 2)
    with pytest.raises(SlipwayError, match="is no public key of the kinds ED25519 and RSA") as refused:
        ssh_config(NODES, "c6i", given)
    assert "PRIVATE" not in str(refused.value)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--forward", "6006", "--config"), "only one of --forward, --config"),
        (("0", "--forward", "6006", "--", "id"), "only one of --forward, a command"),
    ],
)
def test_two_wishes_at_once_are_refused(slipway: Slipway, words: tuple[str, ...], says: str) -> None:
    assert says in slipway.told("ssh", "c6i", *words, code=2)


def test_without_a_key_of_ones_own_it_says_how_to_make_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, slipway: Slipway
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr("slipway.jobs.clusters.machines.find_machines", lambda *_: NODES)
    assert "hint: make one: ssh-keygen -t ed25519" in slipway.refused("ssh", "c6i", "--config")
