"""Sessions of Systems Manager work in the yard as `slipway ssh` starts them: a shell, a command, a port."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from slipway.jobs.words.errors import SlipwayError
from slipway.jobs.words.targets import encode_target, parameter_name
from slipway.yard.endpoint import control
from tests.jobs.words.test_targets import MPI_TARGET
from tests.yard.asking import refusal
from tests.yard.machines.hosts.conftest import PATIENCE_S, TOKEN, Cluster, Site
from tests.yard.machines.hosts.test_logins import PYTHON

# What a node of an MPI cluster does when it joins: sshd takes the cluster's certificates and no key files,
# and the metadata are closed to jobs.
JOIN = """\
from slipway.jobs.platforms.mpi.node.job_credentials import close_metadata
from slipway.jobs.platforms.mpi.node.join import reload_sshd
from slipway.jobs.platforms.mpi.node.setting import node_paths
from slipway.jobs.platforms.mpi.node.ssh_trust import cluster_user, establish

close_metadata()
establish(node_paths(), "s" * 64, ["ip-10-0-0-1", "10.0.0.1"], cluster_user())
reload_sshd(node_paths())
"""
SLIPWAY = (sys.executable, "-c", "from slipway.jobs.cli.cli import main; main()")
PORT = 6006
SERVE = (
    "import http.server as h\n"
    "class Handler(h.BaseHTTPRequestHandler):\n"
    "  def do_GET(self):\n"
    "    body = b'curves' * 100000\n"
    "    self.send_response(200); self.send_header('Content-Length', str(len(body))); self.end_headers()\n"
    "    self.wfile.write(body)\n"
    f"h.ThreadingHTTPServer(('127.0.0.1', {PORT}), Handler).serve_forever()\n"
)


class Person:
    """Return a shell that points at the yard, and a deployed cluster."""

    def __init__(self, site: Site, cluster: Cluster) -> None:
        self.cluster = next(each["cluster"] for each in site.hosts() if each["name"] == cluster.members[0])
        target = replace(MPI_TARGET, name=self.cluster)
        site.client("ssm").put_parameter(
            Name=parameter_name(self.cluster), Value=encode_target(target), Type="String", Overwrite=True
        )
        home = {"SLIPWAY_YARD_HOME": str(site.yard.home)}
        self.environment = {**os.environ, **site.yard.variables(), **home}

    def ssh(self, *words: str, told: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            (*SLIPWAY, "ssh", self.cluster, *words),
            env=self.environment,
            input=told,
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_S,
        )

    @contextmanager
    def forwarding(self, words: str) -> Iterator[subprocess.Popen[str]]:
        """Hold a port open until the end of the block, and then press Ctrl-C."""
        asked = (*SLIPWAY, "ssh", self.cluster, "0", "--forward", words)
        with subprocess.Popen(asked, env=self.environment, stdout=subprocess.PIPE, text=True) as running:
            assert running.stdout
            for line in running.stdout:
                if line.startswith("Waiting for connections"):
                    break
            try:
                yield running
            finally:
                running.send_signal(signal.SIGINT)
                running.stdout.read()


@pytest.fixture(scope="module")
def person(site: Site, cluster: Cluster) -> Person:
    return Person(site, cluster)


@pytest.fixture(scope="module")
def main_node(person: Person) -> str:
    """Return the name of node 0."""
    return person.ssh(told="hostname -s\n").stdout.splitlines()[2]


@pytest.fixture(scope="module")
def served(site: Site, main_node: str) -> Iterator[None]:
    """Start a program on the main node that listens only on the node's loopback."""
    begin = f'setsid {sys.executable} -c "$0" >/dev/null 2>&1 & echo $!'
    process_id = site.on(main_node, "sh", "-c", begin, SERVE).out.strip()
    site.until(lambda: site.on(main_node, "curl", "-sf", f"http://127.0.0.1:{PORT}/").code == 0)
    yield
    site.on(main_node, "kill", process_id)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def test_a_shell_opens_on_the_main_node_and_its_session_is_told(person: Person, cluster: Cluster) -> None:
    said = person.ssh(told="hostname -s\n")
    assert said.returncode == 0, said
    first, name, *last = said.stdout.strip().splitlines()
    assert first.startswith("Starting session with SessionId: yard-")
    assert name in cluster.members
    assert last[-1].startswith("Exiting session with sessionId: yard-")
    assert f"node 0 of {person.cluster} is {name}" in said.stderr


@pytest.mark.parametrize("ask", ["1", "name", "instance"])
def test_a_node_is_chosen_by_its_number_its_name_or_its_instance_and_words_reach_its_program_as_they_are(
    person: Person, cluster: Cluster, main_node: str, ask: str
) -> None:
    other = next(each for each in cluster.members if each != main_node)
    node = {"1": "1", "name": other, "instance": cluster.instance(other)}[ask]
    words = ("a b", "$(touch /tmp/owned)", "'; id #", "*")
    said = person.ssh(node, "--", "sh", "-c", 'hostname -s; printf "<%s>" "$@"', "sh", *words).stdout
    assert other in said.splitlines()
    assert "".join(f"<{word}>" for word in words) in said


def test_a_port_of_a_node_opens_here_and_nowhere_else(
    site: Site, person: Person, cluster: Cluster, main_node: str, served: None
) -> None:
    local = free_port()
    url = f"http://127.0.0.1:{local}/"
    with person.forwarding(f"{local}:{PORT}") as running:
        with ThreadPoolExecutor(4) as pool:
            found = list(pool.map(lambda _: urllib.request.urlopen(url, timeout=30).read(), range(8)))
        assert found == [b"curves" * 100000] * 8
        other = next(each for each in cluster.members if each != main_node)
        at_node = f"http://{cluster.address(main_node)}:{PORT}/"
        assert site.on(other, "curl", "-s", "--max-time", "3", at_node).code != 0
    assert running.returncode == 0
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", local), timeout=5)


def test_a_port_on_which_nobody_listens_ends_the_connection_and_not_the_session_and_a_taken_one_is_said(
    person: Person,
) -> None:
    local = free_port()
    with person.forwarding(f"{local}:9") as running:
        for _ in range(2):
            with socket.create_connection(("127.0.0.1", local), timeout=30) as connection:
                assert connection.recv(1) == b""
        said = person.ssh("0", "--forward", f"{local}:{PORT}")
        assert (said.returncode, running.poll()) == (1, None)
    assert "cannot be opened: Address already in use" in said.stderr


@pytest.mark.parametrize(
    ("document", "parameters", "code"),
    [
        ("AWS-StartPortForwardingSession", {"portNumber": ["70000"]}, "InvalidParameters"),
        ("AWS-StartPortForwardingSession", {"portNumber": ["6006;id"]}, "InvalidParameters"),
        ("AWS-StartInteractiveCommand", {}, "InvalidParameters"),
        ("AWS-StartPortForwardingSessionToRemoteHost", {}, "NotImplemented"),
    ],
)
def test_a_session_that_a_document_or_a_machine_or_a_key_does_not_allow_is_refused(
    site: Site, cluster: Cluster, document: str, parameters: dict[str, list[str]], code: str
) -> None:
    ssm, instance = site.client("ssm"), cluster.instance(cluster.members[0])
    start = partial(ssm.start_session, Target=instance)
    assert refusal(start, DocumentName=document, Parameters=parameters)["Code"] == code
    absent = refusal(ssm.start_session, Target="i-0123456789abcdef0")
    said = "i-0123456789abcdef0 is not connected."
    assert (absent["Code"], absent["Message"]) == ("TargetNotConnected", said)
    send = partial(site.client("ec2-instance-connect").send_ssh_public_key, InstanceOSUser="slipway")
    for key in ("ecdsa-sha2-nistp256 " + "A" * 100, "ssh-rsa " + "A" * 90 + "\nssh-rsa B"):
        assert refusal(send, InstanceId=instance, SSHPublicKey=key)["Code"] == "InvalidArgsException"


def test_a_token_opens_its_own_session_once(site: Site, cluster: Cluster) -> None:
    start = partial(site.client("ssm").start_session, Target=cluster.instance(cluster.members[0]))
    one, other = start(), start()
    crossed = {"session": one["SessionId"], "token": other["TokenValue"]}
    with pytest.raises(SlipwayError, match="there is no session"):
        control(site.yard, "POST", "/enter-session", crossed)
    right = {"session": one["SessionId"], "token": one["TokenValue"]}
    assert control(site.yard, "POST", "/enter-session", right)["document"] == "SSM-SessionManagerRunShell"
    with pytest.raises(SlipwayError, match="there is no session"):
        control(site.yard, "POST", "/enter-session", right)


@pytest.fixture
def own_key(tmp_path: Path) -> Path:
    key = tmp_path / "own key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    return key.with_name(f"{key.name}.pub")


class Config:
    """Use what `slipway ssh CLUSTER --config` printed, as ssh and an editor do."""

    def __init__(self, person: Person, key: Path, folder: Path) -> None:
        self.person, self.file = person, folder / "config"
        printed = person.ssh("--config", "--key", str(key))
        assert printed.returncode == 0, printed
        self.file.write_text(f"{printed.stdout}\nHost *\n  UserKnownHostsFile {folder}/known_hosts\n")

    def ssh(self, *words: str, key: Path | None = None) -> subprocess.CompletedProcess[str]:
        own = ("-o", f"IdentityFile={key}") if key else ()
        return subprocess.run(
            ("ssh", "-F", str(self.file), "-o", "BatchMode=yes", *own, *words),
            env=self.person.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_S,
        )


@pytest.fixture
def config(tier: str, person: Person, own_key: Path, tmp_path: Path) -> Config:
    if tier != "root":
        pytest.skip("without root a host has one user, and EC2 Instance Connect has none")
    return Config(person, own_key, tmp_path)


def test_ssh_reaches_each_node_by_its_config_and_carries_files_and_ports(
    config: Config, person: Person, cluster: Cluster, served: None, tmp_path: Path
) -> None:
    names = [config.ssh(f"slipway-{person.cluster}-{number}", "hostname -s; id -un") for number in (0, 1)]
    assert sorted(said.stdout.split()[0] for said in names) == sorted(cluster.members), names
    assert {said.stdout.split()[1] for said in names} == {"slipway"}
    local = free_port()
    through = ("-o", "ExitOnForwardFailure=yes", "-L", f"{local}:127.0.0.1:{PORT}")
    with subprocess.Popen(
        ("ssh", "-F", str(config.file), "-N", *through, f"slipway-{person.cluster}-0"),
        env=person.environment,
    ) as running:
        found = subprocess.run(
            [
                "curl",
                "-s",
                "--retry",
                "50",
                "--retry-connrefused",
                "--retry-delay",
                "1",
                f"http://127.0.0.1:{local}/",
            ],
            capture_output=True,
            check=False,
            timeout=PATIENCE_S,
        )
        running.terminate()
    assert found.stdout == b"curves" * 100000


def test_a_node_of_an_mpi_cluster_lets_in_whose_key_was_sent_and_nobody_else(
    site: Site, config: Config, person: Person, main_node: str, tmp_path: Path
) -> None:
    said = site.on(main_node, PYTHON, "-c", JOIN)
    assert said.code == 0, said
    host = f"slipway-{person.cluster}-0"
    assert config.ssh(host, "id -un").stdout == "slipway\n"
    asked = ("setpriv", "--reuid", "slipway", "--regid", "slipway", "--init-groups", "curl", "-s", *TOKEN)
    assert site.on(main_node, *asked).code != 0  # a job is still kept from the metadata
    stranger = tmp_path / "stranger"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(stranger)], check=True)
    lines = config.file.read_text().splitlines()
    other = [f'  IdentityFile "{stranger}"' if "IdentityFile" in line else line for line in lines]
    config.file.write_text("\n".join(other))
    assert "Permission denied (publickey)" in config.ssh(host, "id").stderr
