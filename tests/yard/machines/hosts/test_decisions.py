"""Firewalls, boot steps and a document's steps are decided right before any host is touched."""

from __future__ import annotations

import base64
import gzip
import sys
from typing import Any

import pytest

from slipway.jobs.platforms.mpi.node import job_credentials
from slipway.yard.errors import ApiError
from slipway.yard.machines.hosts.firewall import ANY, Rule, ruleset
from slipway.yard.machines.hosts.inside import nft_door
from slipway.yard.machines.hosts.planning import boot, own_files, real_boot
from slipway.yard.machines.isolation.tiers import Tier
from slipway.yard.machines.settings import CHECKOUT
from slipway.yard.services.ssm import documents


def rule(**more: Any) -> Rule:
    return Rule(
        **{"way": "ingress", "protocol": "tcp", "first": 22, "last": 22, "peers": ("10.0.0.4/32",), **more}
    )


def chain(way: str, text: str) -> list[str]:
    body = text.partition(f"chain {way} {{")[2].partition("}\n")[0]
    return [line.strip() for line in body.splitlines() if line.strip()]


@pytest.mark.parametrize(
    ("given", "line"),
    [
        (rule(), "ip saddr { 10.0.0.4/32 } meta l4proto tcp tcp dport 22-22 accept"),
        (rule(first=0, last=65535), "ip saddr { 10.0.0.4/32 } meta l4proto tcp accept"),
        (rule(protocol=ANY, first=None, last=None), "ip saddr { 10.0.0.4/32 } accept"),
        (
            rule(protocol="udp", last=53),
            "ip saddr { 10.0.0.4/32 } meta l4proto udp udp dport 22-53 accept",
        ),
        (rule(protocol="icmp", first=-1, last=-1), "ip saddr { 10.0.0.4/32 } meta l4proto icmp accept"),
        (rule(protocol="50", first=None, last=None), "ip saddr { 10.0.0.4/32 } meta l4proto 50 accept"),
        (rule(peers=("::/0",)), "ip6 saddr { ::/0 } meta l4proto tcp tcp dport 22-22 accept"),
        (rule(peers=("10.0.0.9/8",)), "ip saddr { 10.0.0.0/8 } meta l4proto tcp tcp dport 22-22 accept"),
        (
            rule(peers=("10.0.0.4/32", "10.0.0.5/32", "10.0.0.0/24")),
            "ip saddr { 10.0.0.0/24 } meta l4proto tcp tcp dport 22-22 accept",
        ),
    ],
)
def test_a_permission_is_one_line_of_its_chain(given: Rule, line: str) -> None:
    text = ruleset([given])
    assert line in chain("ingress", text)
    assert line not in chain("egress", text)


def test_what_no_rule_allows_is_dropped_both_ways_and_a_host_s_own_tables_stay() -> None:
    text = ruleset([])
    for way in ("ingress", "egress"):
        first, *others = chain(way, text)
        assert first.endswith("policy drop;")
        assert len(others) == 2  # the loopback, and what is established
    out = ruleset([rule(way="egress", protocol=ANY, peers=("0.0.0.0/0",))])
    assert "ip daddr { 0.0.0.0/0 } accept" in chain("egress", out), "it looks at where a packet goes"
    text = ruleset([rule()])
    assert "flush ruleset" not in text
    assert text.startswith("table inet security_groups {}\ndelete table inet security_groups\n")


def encoded(text: str, compressed: bool = False) -> str:
    raw = text.encode()
    return base64.b64encode(gzip.compress(raw) if compressed else raw).decode()


MESSAGE = """\
Content-Type: multipart/mixed; boundary="B"

--B
Content-Type: text/cloud-config

#cloud-config
packages: [nothing]
write_files:
- path: /etc/a
  permissions: "0444"
  content: |
    one
- path: /etc/b
  content: two
--B
Content-Type: text/x-shellscript

#!/bin/sh
echo first
--B
Content-Type: text/x-shellscript

#!/bin/sh
echo second
--B
Content-Type: text/jinja2

x
--B--
"""


def test_a_message_of_user_data_is_files_and_then_scripts_in_their_order() -> None:
    found = boot.read_user_data(encoded(MESSAGE))
    assert found.files["/etc/a"] == {"text": "one\n", "mode": 0o444}
    assert found.files["/etc/b"] == {"text": "two", "mode": 0o644}
    assert [found.files[path]["text"].split()[-1] for path in found.scripts] == ["first", "second"]
    assert found.left_out == ["#cloud-config packages", "a part of type text/jinja2"]
    told = [step for step in boot.steps(found) if step[0] == "echo"]
    assert len(told) == 2


@pytest.mark.parametrize("compressed", [False, True])
def test_a_script_is_user_data_too_and_so_is_nothing(compressed: bool) -> None:
    found = boot.read_user_data(encoded("#!/bin/sh\necho one\n", compressed))
    assert found.files[found.scripts[0]] == {"text": "#!/bin/sh\necho one\n", "mode": 0o700}
    assert boot.steps(boot.read_user_data("")) == list(boot.FIRST_STEPS)


def document(command: Any, **parameters: Any) -> dict[str, Any]:
    inputs = {"runCommand": command}
    step = {"action": "aws:runShellScript", "name": "one", "inputs": inputs}
    return {"schemaVersion": "2.2", "parameters": parameters, "mainSteps": [step]}


def words(content: dict[str, Any], **given: list[str]) -> tuple[str, ...]:
    return documents.steps(content, given)[0].run.argv


def test_a_scripts_first_line_says_who_reads_it() -> None:
    assert words(document(["#!/usr/bin/env python3", "print(1)"])) == (
        "/usr/bin/env",
        "python3",
        "-c",
        "#!/usr/bin/env python3\nprint(1)",
    )
    assert words(document(["echo 1"]))[:2] == ("/bin/sh", "-c")


def test_a_list_takes_the_place_of_its_parameter_and_only_a_shell_s_step_is_run() -> None:
    content = document(["set -e", "{{ commands }}", "echo {{commands}}"], commands={"type": "StringList"})
    text = words(content, commands=["one", "two"])[-1]
    assert text.splitlines() == ["set -e", "one", "two", 'echo ["one", "two"]']
    content = document("x")
    content["mainSteps"][0]["action"] = "aws:downloadContent"
    with pytest.raises(ApiError, match="aws:runShellScript, not aws:downloadContent"):
        documents.steps(content, {})


@pytest.mark.parametrize(
    ("declared", "given", "says"),
    [
        ({"allowedPattern": "^a+$"}, ["b"], "does not match"),
        ({"allowedPattern": "a+"}, ["ab"], "does not match"),
        ({"allowedValues": ["x", "y"]}, ["z"], "one of x, y"),
        ({"maxChars": 2}, ["abc"], "has 3 characters; allowed are 0 to 2"),
        ({"minChars": 2}, ["a"], "has 1 characters; allowed are 2 to any number"),
        ({}, ["a", "b"], "takes one value, and not 2"),
    ],
)
def test_a_parameter_is_held_to_what_its_document_says(
    declared: dict[str, Any], given: list[str], says: str
) -> None:
    with pytest.raises(ApiError, match=says):
        words(document("echo {{ P }}", P={"type": "String", **declared}), P=given)


@pytest.mark.parametrize(
    ("rules", "is_refused"),
    [
        (job_credentials.rules(), False),
        ("flush ruleset", True),
        ("delete table inet security_groups", True),
        ("table inet mine {}\nflush table inet security_groups\n", True),
        ("include '/etc/nftables.conf'\ntable inet mine {}", True),
        ("add rule inet security_groups output accept", True),
    ],
)
def test_a_host_changes_tables_of_its_own_and_no_security_group(rules: str, is_refused: bool) -> None:
    assert bool(nft_door.refusal(rules)) is is_refused


# The parts of this machine that a host gets if its machine image was not baked here.
ORDINARY_USER = Tier(name="user", isolated=True, words="", obstacle=lambda: "")


def test_a_host_may_write_beside_the_programs_of_this_machine_whichever_python_runs_the_yard(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "base_prefix", "/usr")
    mounted = [target for _, target in own_files.plan(ORDINARY_USER)["mounts"]]
    assert str(CHECKOUT) in mounted
    assert "/usr" not in mounted


# The parts of this machine that a host with a real boot sees.


def test_a_checkout_in_a_home_on_a_file_system_of_its_own_is_seen_read_only() -> None:
    tree = {
        "mounts": [("/disk/you/slipway", "/disk/you/slipway"), ("/data/python", "/data/python")],
        "read_only": ["/disk/you/slipway"],
        "removed": [],
        "links": {},
        "written": {},
    }
    planned = real_boot.of_tree(tree, is_own=False, is_slurm=False)
    assert planned["read_only"] == [("/disk/you/slipway", "/disk/you/slipway")]
    assert ("/data/python", "/data/python") in planned["mounts"]
    assert ("/disk/you/slipway", "/disk/you/slipway") not in planned["mounts"], "it would be writable"
