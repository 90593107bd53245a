"""Steps of components, run for real in a small root file system."""

from __future__ import annotations

import hashlib
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from slipway.yard.services.imagebuilder.components.actions import BadDocument
from slipway.yard.services.imagebuilder.components.document import parse
from slipway.yard.services.imagebuilder.components.runner import Variables, rounds
from slipway.yard.services.imagebuilder.machine.inside import GIVEN_UP
from tests.local_server import files_of, serving
from tests.yard.every_tier import ISOLATED_TIERS
from tests.yard.services.imagebuilder.conftest import Bakery


def document(*steps: Any, phase: str = "build", **more: Any) -> str:
    return yaml.safe_dump(
        {"name": "part", "schemaVersion": 1.0, **more, "phases": [{"name": phase, "steps": list(steps)}]}
    )


def bash(*commands: str, name: str = "Run", **more: Any) -> dict[str, Any]:
    return {"name": name, "action": "ExecuteBash", "inputs": {"commands": list(commands)}, **more}


on_each_tier = pytest.mark.parametrize("bakery_tier", ISOLATED_TIERS, indirect=True, scope="session")


@on_each_tier
def test_what_a_step_writes_is_in_the_image_and_what_it_prints_in_the_log(bakery: Bakery) -> None:
    baked = bakery.bake(document(bash("echo hello > /etc/greeting", "id -u; hostname", "pwd")))
    assert baked.status == "AVAILABLE", baked.reason
    assert (baked.folder / "root/etc/greeting").read_text() == "hello\n"
    assert {"0", "image-builder", "/tmp"} <= set(baked.lines)


@on_each_tier
def test_a_step_sees_nothing_of_this_machine_and_cannot_change_it(bakery: Bakery, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("x")
    baked = bakery.bake(
        document(
            bash(f"test ! -e {secret}; echo seen $?", "hostname other || echo kept", "ls -d /proc/[0-9]*"),
            bash(
                "[ -w /proc/sys/kernel/hostname ] && echo x > /proc/sys/kernel/domainname; true", name="Set"
            ),
        )
    )
    assert baked.status == "AVAILABLE", baked.reason
    assert "seen 0" in baked.lines
    assert "kept" in baked.lines
    assert sum(line.startswith("/proc/") for line in baked.lines) <= 4  # its first process, the shell and ls


@on_each_tier
def test_a_step_has_no_power_over_this_machines_kernel(bakery: Bakery) -> None:
    look = "while read -r name value; do [ $name != CapBnd: ] || echo bound $value; done"
    baked = bakery.bake(document(bash(f"{look} < /proc/self/status")))
    (bound,) = [int(line.split()[1], 16) for line in baked.lines if line.startswith("bound ")]
    assert [number for number in GIVEN_UP if bound & 1 << number] == []


@on_each_tier
def test_no_step_waits_for_the_disk(bakery: Bakery) -> None:
    """Hold that nothing is tried here, though what cannot be synced is an error elsewhere."""
    assert subprocess.run(["sync", "/dev/null"], check=False, capture_output=True).returncode == 1
    baked = bakery.bake(document(bash("sync /dev/null && echo there > /etc/greeting")))
    assert baked.status == "AVAILABLE", baked.reason
    assert (baked.folder / "root/etc/greeting").read_text() == "there\n"


@on_each_tier
def test_the_image_keeps_neither_tmp_nor_run_nor_what_the_network_needed(bakery: Bakery) -> None:
    baked = bakery.bake(
        document(
            bash("touch /tmp/a /var/tmp/b /run/c; echo s > /etc/ssh/ssh_host_rsa_key"),
            bash("ls /tmp/a /run/c; cat /etc/resolv.conf > /etc/copy", name="Look"),
        )
    )
    assert baked.status == "AVAILABLE", baked.reason  # the second step still found them
    root = baked.folder / "root"
    assert (root / "etc/copy").read_text() == Path("/etc/resolv.conf").read_text()
    left = [path.relative_to(root).as_posix() for path in (*root.glob("tmp/*"), *root.glob("run/*"))]
    assert left == []
    for gone in ("etc/resolv.conf", "etc/ssh/ssh_host_rsa_key"):
        assert not (root / gone).exists()
    assert (root / "etc/machine-id").read_text() == ""


def test_a_step_that_fails_fails_the_image_and_names_itself(bakery: Bakery) -> None:
    baked = bakery.bake(document(bash("echo no such driver", "exit 3"), bash("touch /x", name="Next")))
    assert baked.status == "FAILED"
    assert "step build.Run (ExecuteBash)" in baked.reason
    assert "exit code 3: no such driver" in baked.reason
    failure = baked.image["state"]["failureContext"]["componentFailure"]
    assert (failure["phaseName"], failure["stepName"]) == ("build", "Run")
    assert not any("build.Next" in line for line in baked.lines)
    assert baked.image["outputResources"] == {"amis": []}


def test_a_step_may_fail_and_be_ignored_or_let_the_others_run_first(bakery: Bakery) -> None:
    ignored = bakery.bake(document(bash("exit 1", onFailure="Ignore"), bash("touch /x", name="Next")))
    assert (ignored.status, (ignored.folder / "root/x").exists()) == ("AVAILABLE", True)
    later = bakery.bake(document(bash("exit 1", onFailure="Continue"), bash("echo ran", name="Next")))
    assert (later.status, "ran" in later.lines) == ("FAILED", True)
    assert "build.Run" in later.reason


def test_a_step_is_tried_as_often_as_it_says(bakery: Bakery) -> None:
    once = "[ -e /tmp/again ] && exit 0; touch /tmp/again; exit 1"
    assert bakery.bake(document(bash(once, maxAttempts=2))).status == "AVAILABLE"
    assert bakery.bake(document(bash(once))).status == "FAILED"


def test_a_step_that_takes_too_long_is_ended_with_all_that_it_started(bakery: Bakery) -> None:
    baked = bakery.bake(document(bash("sleep 1000 & sleep 1000", timeoutSeconds=1)))
    assert (baked.status, "more than 1 s" in baked.reason) == ("FAILED", True)


def test_a_step_that_asks_for_a_restart_runs_again(bakery: Bakery) -> None:
    baked = bakery.bake(document(bash("[ -e /tmp/was ] || { touch /tmp/was; exit 194; }", "touch /done")))
    assert (baked.status, (baked.folder / "root/done").exists()) == ("AVAILABLE", True)
    assert any("asks for a restart" in line for line in baked.lines)


def test_what_needs_hardware_and_what_reboots_is_left_out_by_name(bakery: Bakery) -> None:
    steps = (bash("exit 1", name="LoadDriverOnHardware"), bash("exit 1", name="InstallFromVendor"))
    baked = bakery.bake(document(*steps, {"name": "Restart", "action": "Reboot"}))
    assert baked.status == "AVAILABLE", baked.reason
    said = [line for line in baked.lines if "left out" in line]
    for name in ("LoadDriverOnHardware", "InstallFromVendor", "Restart"):
        assert any(f"part 0 build.{name}" in line for line in said), said
    assert "LoadDriverOnHardware" in (baked.folder / "manifest.json").read_text()


def test_parameters_constants_loops_and_outputs_reach_the_next_steps(bakery: Bakery) -> None:
    baked = bakery.bake(
        document(
            bash("echo {{ Version }}-{{ SUFFIX }}", name="Say"),
            bash(
                "echo {{ build.Say.outputs.stdout }} {{ loop.value }} >> /list", loop={"forEach": ["a", "b"]}
            ),
            {
                "name": "Write",
                "action": "CreateFile",
                "inputs": [
                    {"path": "/file", "content": "{{ build.Say.outputs.stdout }}", "permissions": "0600"}
                ],
            },
            bash("stat -c %a {{ build.Write.inputs[0].path }}", name="Look"),
            parameters=[{"Version": {"type": "string", "default": "1"}}],
            constants=[{"SUFFIX": {"type": "string", "value": "rc"}}],
        ),
        parameters={"Version": "2"},
    )
    assert baked.status == "AVAILABLE", baked.reason
    assert (baked.folder / "root/list").read_text() == "2-rc a\n2-rc b\n"
    assert "600" in baked.lines


def test_a_link_in_the_image_leads_nowhere_outside_it(bakery: Bakery) -> None:
    target = Path(f"/outside-{uuid.uuid4().hex}")
    link = {"path": "/link", "target": str(target)}
    write = {"path": "/link", "content": "x"}
    baked = bakery.bake(
        document(
            {"name": "Link", "action": "CreateSymlink", "inputs": [link]},
            {"name": "Write", "action": "CreateFile", "inputs": [write]},
        )
    )
    assert baked.status == "AVAILABLE", baked.reason
    assert not target.exists()
    assert (baked.folder / f"root{target}").read_text() == "x"


@pytest.fixture
def web(tmp_path: Path) -> Iterator[str]:
    """A server of this machine with one file."""
    (tmp_path / "tool.tar").write_bytes(b"tool")
    with serving(files_of(tmp_path)) as address:
        yield f"{address}/tool.tar"


@pytest.mark.parametrize(("content", "status"), [(b"tool", "AVAILABLE"), (b"other", "FAILED")])
def test_a_download_is_kept_only_with_its_checksum(
    bakery: Bakery, web: str, content: bytes, status: str
) -> None:
    wanted = {
        "source": web,
        "destination": "/opt/tool.tar",
        "checksum": hashlib.sha256(content).hexdigest(),
        "algorithm": "SHA256",
    }
    baked = bakery.bake(document({"name": "Fetch", "action": "WebDownload", "inputs": [wanted]}))
    assert baked.status == status, baked.reason
    if status == "AVAILABLE":
        assert (baked.folder / "root/opt/tool.tar").read_bytes() == b"tool"
    else:
        assert f"but must have {wanted['checksum']}" in baked.reason


def test_a_file_comes_from_a_bucket(bakery: Bakery) -> None:
    s3 = bakery.yard.client("s3")
    s3.create_bucket(Bucket="parts")
    s3.put_object(Bucket="parts", Key="a/b", Body=b"from s3")
    fetch = {
        "name": "Fetch",
        "action": "S3Download",
        "inputs": [{"source": "s3://parts/a/b", "destination": "/b"}],
    }
    baked = bakery.bake(document(fetch))
    assert baked.status == "AVAILABLE", baked.reason
    assert (baked.folder / "root/b").read_bytes() == b"from s3"


@pytest.mark.parametrize(
    ("steps", "said"),
    [
        (
            [{"name": "A", "action": "SetRegistry"}],
            "step build.A has the action 'SetRegistry'; the yard knows",
        ),
        ([{**bash("true"), "if": {}}], "step build.Run has 'if'; the yard runs no conditions"),
        ([bash("true"), bash("true")], "step build.Run is there twice"),
        ([bash("true", onFailure="Retry")], "onFailure 'Retry'; allowed are Abort, Continue, Ignore"),
        ([bash("true", timeoutSeconds="1h")], "timeoutSeconds '1h'"),
        ([{"action": "Reboot"}], "a step of build has no name"),
    ],
)
def test_a_document_that_cannot_be_run_is_refused_by_name(steps: list[Any], said: str) -> None:
    with pytest.raises(BadDocument) as refused:
        parse(document(*steps))
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "needs a value for its parameter Version"),
        ({"Other": "1"}, "has no parameter Other; it has Version"),
    ],
)
def test_parameters_are_those_that_the_document_declares(given: dict[str, str], said: str) -> None:
    read = parse(document(parameters=[{"Version": {"type": "string"}}]))
    with pytest.raises(BadDocument, match=said):
        Variables(read, given)


def test_a_reference_to_nothing_is_refused_by_name() -> None:
    with pytest.raises(BadDocument, match=r"nothing is called '{{ build.Gone.outputs.stdout }}' here"):
        Variables(parse(document()), {}).expand(["{{ build.Gone.outputs.stdout }}"], {})


def test_a_loop_counts_its_end_in_and_splits_lists() -> None:
    counted = rounds({"name": "n", "for": {"start": 4, "end": 0, "updateBy": -2}})
    assert [each["n.index"] for each in counted] == ["4", "2", "0"]
    split = rounds({"forEach": {"list": "a;b", "delimiter": ";"}})
    assert [(each["loop.index"], each["loop.value"]) for each in split] == [("0", "a"), ("1", "b")]
