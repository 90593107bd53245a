"""Every known bad input of a declaration or of the context is refused in the right words.

To add a row, add a line to DECLARED or CONTEXT. For one that another place refuses, or that no declaration
can express, add a line to ELSEWHERE with its reason.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from slipway.infra.declare.checks.clusters import all_problems
from slipway.infra.declare.overrides import apply
from slipway.infra.declare.types import Cluster, FileSystem, Market
from slipway.jobs.words.errors import InvalidConfig
from slipway.jobs.words.names import stack_name
from tests.infra.declare.test_types import SOUND_MPI
from tests.infra.synthesis import CLUSTER

SECRET = "AKIA" + "Q" * 16

# All known rows about declarations, context and network.
ROWS = """
    001 002 003 004 005 007 008 010 011 013 014 015 016 019 020 024 025 026 028 029 031 032 034 035
    070 076 077 080 082 083 085 091 094 095 096 097 098 100 103 104 106 107 130 131 133 134
    136 137 139 140 149
"""

# Row, the settings of an entry of clusters.py, words of the refusal.
DECLARED: tuple[tuple[str, dict[str, Any], str], ...] = (
    (
        "BI-001",
        {"instance_type": "c6i.24xlarge", "efa_interfaces": 1},
        "c6i.24xlarge has no EFA; use c6i.32xlarge or c6i.metal",
    ),
    (
        "BI-002",
        {"instance_type": "trn1.2xlarge", "efa_interfaces": 1},
        "trn1.2xlarge has no EFA; use trn1.32xlarge",
    ),
    ("BI-002", {"instance_type": "trn1.2xlarge"}, "cannot train together without EFA; use trn1.32xlarge"),
    (
        "BI-003",
        {"instance_type": "trn1.32xlarge", "efa_interfaces": 16},
        "is 16; trn1.32xlarge takes 0 to 8; trn1n.32xlarge takes 16",
    ),
    ("BI-004", {"efa_interfaces": 5}, "is 5; dl1.24xlarge takes 0 to 4"),
    ("BI-005", {"instance_type": "c6i.32xlarge", "efa_interfaces": 2}, "is 2; c6i.32xlarge takes 0 to 1"),
    ("BI-007", {"instance_type": "dl1.24xlage"}, "did you mean dl1.24xlarge"),
    (
        "BI-008",
        {"region": "eu-west-1", "zone": "eu-west-1a"},
        "dl1.24xlarge is offered in us-east-1, us-west-2",
    ),
    ("BI-010", {"zone": "us-west-2a"}, "zone: is 'us-west-2a', not an Availability Zone of us-east-1"),
    ("BI-015", {"region": "xx-fake-9"}, "region: is 'xx-fake-9', which is not an AWS region"),
    ("BI-015", {"region": "us-fake-9"}, "region: is 'us-fake-9', which is not an AWS region"),
    ("BI-015", {"region": "US-EAST-1"}, "is 'US-EAST-1', which is not an AWS region; did you mean us-east-1"),
    ("BI-015", {"region": " us-east-1"}, "which is not an AWS region; did you mean us-east-1"),
    (
        "BI-015",
        {"region": "cn-north-1", "zone": "cn-north-1a"},
        "region: is cn-north-1, which is not in AWS's",
    ),
    ("BI-015", {"region": "us-gov-west-1", "zone": "us-gov-west-1a"}, "policies name that partition"),
    ("BI-015", {"region": ""}, "region: is '', which is not an AWS region"),
    ("BI-016", {"region": False}, "region: is False, not text in quotes"),
    (
        "BI-019",
        {"instance_type": "c7g.16xlarge", "image": "pytorch"},
        "which is not for the arm64 of c7g.16xlarge",
    ),
    ("BI-020", {"instance_type": "p3.16xlarge"}, "whose NVIDIA V100 16GB nothing in a BatchCluster drives"),
    ("BI-020", {"ami_parameter": "/mine/ami"}, "an AMI without Slipway's boot"),
    ("BI-020", {"image": "cpu"}, "image: is cpu, which is not for the Habana Gaudi HL-205"),
    (
        "BI-022",
        {"market": Market.SPOT},
        "does not run multi-node jobs on Spot instances; use market=Market.ON_DEMAND",
    ),
    ("BI-026", {"max_nodes": 0}, "is 0, not a whole number from 1 to 1000"),
    ("BI-026", {"max_nodes": True}, "is True, not a whole number"),
    ("BI-028", {"max_nodes": 1.5}, "is 1.5, not a whole number"),
    ("BI-029", {"max_nodes": "4"}, "is '4', not a whole number"),
    ("BI-031", {"max_nodes": float("nan")}, "is nan, not a whole number"),
    ("BI-032", {"max_nodes": 1e9}, "is 1000000000.0, not a whole number"),
    ("BI-032", {"max_nodes": 10**9}, "is 1000000000, not a whole number from 1 to 1000"),
    ("BI-043", {"job_attempts": 0}, "is 0, not a whole number from 1 to 10; 1 is no retry"),
    ("BI-044", {"job_attempts": 11}, "is 11, not a whole number from 1 to 10"),
    ("BI-050", {"runnable_timeout_minutes": 1}, "is 1, not a whole number from 10 to 1440 minutes"),
    ("BI-076", {"name": "a" * 129}, "longer than 64 characters"),
    ("BI-079", {"name": "-rf"}, "is '-rf', not small letters"),
    ("BI-079", {"name": "--help"}, "is '--help', not small letters"),
    ("BI-080", {"name": "dl1\n"}, r"is 'dl1\n', not small letters"),
    ("BI-080", {"name": "dl1\t"}, r"is 'dl1\t', not small letters"),
    ("BI-080", {"name": "dl1\0"}, r"is 'dl1\x00', not small letters"),
    ("BI-080", {"name": "dl\u200b1"}, r"is 'dl\u200b1', not small letters"),
    ("BI-080", {"name": "dl\u202e1"}, r"is 'dl\u202e1', not small letters"),
    ("BI-083", {"tags": {"mood": "🚀"}}, r"with '\U0001f680'; allowed are letters of any language"),
    ("BI-085", {"tags": {f"k{number}": "" for number in range(51)}}, "has 51 tags; allowed are 45"),
    ("BI-085", {"tags": {"k" * 129: ""}}, "a key of 129 characters"),
    ("BI-085", {"tags": {"k": "v" * 257}}, "a value of 257 characters"),
    ("BI-085", {"tags": {"Team": "a", "team": "b"}}, "has 'Team' and 'team', which IAM treats as one key"),
    ("BI-091", {"account": 12345670123}, "is 12345670123, not text in quotes; put it in quotes"),
    ("BI-096", {"vpc_cidr": "10.0.0.1"}, "its prefix is missing; write 10.0.0.1/32"),
    ("BI-096", {"vpc_cidr": "10.0.0.1/24"}, "it has host bits set; write 10.0.0.0/24"),
    ("BI-096", {"vpc_cidr": "10.0.0.0/255.255.0.0"}, "10.0.0.0/16; write 10.0.0.0/16"),
    ("BI-096", {"vpc_cidr": "10.0.0.0/016"}, "not an IPv4 network such as 10.0.0.0/16; write 10.0.0.0/16"),
    ("BI-096", {"peer_cidrs": ("10.9.0.1",)}, "peer_cidrs: is '10.9.0.1', not an IPv4 network"),
    ("BI-096", {"peer_cidrs": ("10.9.0.1/16",)}, "it has host bits set; write 10.9.0.0/16"),
    ("BI-096", {"peer_cidrs": (" 10.9.0.0/16",)}, "write 10.9.0.0/16"),
    ("BI-097", {"peer_cidrs": ("10.20.4.0/22",)}, "overlaps the peer network 10.20.4.0/22"),
    ("BI-097", {"vpc_cidr": "172.17.0.0/16"}, "Docker's bridge on every node, 172.17.0.0/16"),
    ("BI-098", {"vpc_cidr": "10.0.0.0/8"}, "a /8; a VPC is a /16 to a /28"),
    ("BI-098", {"vpc_cidr": "10.0.0.0/29"}, "a /29; a VPC is a /16 to a /28"),
    ("BI-139", {"tags": {"key": SECRET}}, "holds an AWS access key in a value (hidden)"),
    ("BI-139", {"tags": {"AWS_SECRET_ACCESS_KEY": "x"}}, "holds an AWS secret key in a key (hidden)"),
    ("BI-139", {"alert_email": "hf_" + "a" * 34}, "holds a Hugging Face token (hidden)"),
    (
        "BI-139",
        {"tags": {"key": "-----BEGIN RSA PRIVATE KEY-----"}},
        "holds a private key in a value (hidden)",
    ),
    ("BI-149", {"name": "dl1; rm -rf /"}, "is 'dl1; rm -rf /', not small letters"),
    ("BI-149", {"image": "gaudi$(id)"}, "not the name of a folder of containers/images"),
    ("BI-172", {"budget_usd_per_month": 0}, "is 0, not a whole number from 1"),
    ("BI-172", {"budget_usd_per_month": -5}, "is -5, not a whole number from 1"),
)

# The same of a cluster of MPI machines.
DECLARED_MPI: tuple[tuple[str, dict[str, Any], str], ...] = (
    (
        "BI-001",
        {"instance_type": "c6i.24xlarge", "efa_interfaces": 1},
        "c6i.24xlarge has no EFA; use c6i.32xlarge or c6i.metal",
    ),
    ("BI-001", {"efa_interfaces": 1}, "c6i.16xlarge has no EFA; use c6i.32xlarge or c6i.metal"),
    ("BI-005", {"instance_type": "c6i.32xlarge", "efa_interfaces": 2}, "is 2; c6i.32xlarge takes 0 to 1"),
    (
        "BI-024",
        {"market": Market.SPOT, "file_system": FileSystem.NONE},
        "is spot, but without a file system checkpoints are lost",
    ),
    ("BI-026", {"max_nodes": 0}, "is 0, not a whole number from 1 to 50"),
    ("BI-076", {"name": "a" * 129}, "longer than 64 characters"),
    (
        "BI-094",
        {"ssh_cidrs": ("0.0.0.0/0",)},
        "opens port 22 to 4294967296 addresses; the most allowed is a /8; name the network",
    ),
    ("BI-094", {"ssh_cidrs": ("::/0",)}, "is '::/0', not an IPv4 network such as 10.0.0.0/16"),
    ("BI-095", {"ssh_cidrs": ("0.0.0.0/1", "128.0.0.0/1")}, "opens port 22 to 4294967296 addresses"),
    ("BI-095", {"ssh_cidrs": ("10.0.0.0/7",)}, "opens port 22 to 33554432 addresses"),
    ("BI-096", {"ssh_cidrs": ("10.0.0.1",)}, "its prefix is missing; write 10.0.0.1/32"),
    ("BI-096", {"ssh_cidrs": ("10.0.0.1/24",)}, "it has host bits set; write 10.0.0.0/24"),
    ("BI-096", {"ssh_cidrs": ("300.0.0.0/8",)}, "each number of an address is 0 to 255; name the network"),
    ("BI-096", {"ssh_cidrs": ("10.0.0.0/33",)}, "a prefix is 0 to 32; name the network"),
    ("BI-096", {"ssh_cidrs": ("10.0.0.0/0.0.255.255",)}, "write 10.0.0.0/16"),
    ("BI-096", {"ssh_cidrs": ("",)}, "is '', not an IPv4 network"),
    ("BI-097", {"vpc_cidr": "172.17.0.0/16"}, "Docker's bridge on every node, 172.17.0.0/16"),
    ("BI-149", {"name": "c6i; rm -rf /"}, "is 'c6i; rm -rf /', not small letters"),
    ("BI-149", {"machine_image": "cpu-mpi$(id)"}, "not the name of a folder of containers/images"),
)

# Row, the context as `-c` or cdk.json gives it, words of the refusal.
CONTEXT: tuple[tuple[str, dict[str, object], str], ...] = (
    ("BI-016", {"dl1.region": False}, "is false, not text; put it in quotes"),
    ("BI-016", {"dl1.region": "no"}, "is 'no', which is not an AWS region"),
    ("BI-026", {"dl1.max_nodes": "0"}, "is 0, not a whole number from 1 to 1000"),
    ("BI-028", {"dl1.max_nodes": "1.5"}, "is '1.5', not a whole number"),
    ("BI-031", {"dl1.max_nodes": "NaN"}, "is 'NaN', not a whole number"),
    ("BI-032", {"dl1.max_nodes": "1e9"}, "is '1e9', not a whole number"),
    ("BI-035", {"dl1.max_nodes": "022"}, "is '022', a number with leading zeros; write 22"),
    ("BI-091", {"dl1.account": 12345670123}, "is 12345670123, not text; put it in quotes"),
    ("BI-130", {"dl1.tags": "[" * 5000}, "not an object in JSON"),
    ("BI-131", {"dl1.tags": '!!python/object/apply:os.system ["id"]'}, "not an object in JSON"),
    ("BI-133", {"dl1.nodez": "4"}, "is not a setting; did you mean max_nodes?"),
    ("BI-137", {"dl1.max_nodes": "08"}, "is '08', a number with leading zeros; write 8"),
    ("BI-137", {"dl1.max_nodes": "1_000"}, "is '1_000', not a whole number"),
    ("BI-137", {"dl1.job_timeout_hours": "12:30:45"}, "is '12:30:45', not a whole number"),
    ("BI-139", {"dl1.tags.key": SECRET}, "holds an AWS access key in a value (hidden)"),
)

_FILE = "declarations are Python and the context is the CDK's JSON: there is no config file of ours to parse"
_PATTERN = (
    "no setting can ask for it: the network and launch template are made one way, which golden tests hold"
)
_PREFLIGHT = "needs AWS to answer: a check of `slipway preflight`, tested there"

ELSEWHERE = {
    "BI-011": _PREFLIGHT,
    "BI-013": "a cluster has one zone",
    "BI-014": "every placement group is a cluster group",
    "BI-025": _PREFLIGHT,
    "BI-034": "a cluster's least is always zero nodes",
    "BI-070": "learning rates belong to recipes",
    "BI-100": _PATTERN,
    "BI-103": _PATTERN,
    "BI-104": _PATTERN,
    "BI-106": _PATTERN,
    "BI-107": _PATTERN,
    "BI-134": _FILE,
    "BI-136": _FILE,
    "BI-140": _FILE,
}


@pytest.mark.parametrize(
    ("row", "sound", "changes", "said"),
    [
        (row, sound, changes, said)
        for sound, rows in ((CLUSTER, DECLARED), (SOUND_MPI, DECLARED_MPI))
        for row, changes, said in rows
    ],
)
def test_a_bad_declaration_is_refused_in_the_right_words(
    row: str, sound: Cluster, changes: dict[str, Any], said: str
) -> None:
    problems = "\n".join(map(str, all_problems([replace(sound, **changes)])))
    assert said in problems, row
    assert SECRET not in problems


@pytest.mark.parametrize(("row", "context", "said"), CONTEXT)
def test_a_bad_context_is_refused_in_the_right_words(row: str, context: dict[str, object], said: str) -> None:
    with pytest.raises(InvalidConfig) as refusal:
        apply(context, [CLUSTER])
    assert said in refusal.value.message, row
    assert SECRET not in refusal.value.message
    assert refusal.value.exit_code == 2


def test_rows_bi_077_and_082_long_names_stay_apart_and_tags_have_letters_of_any_language() -> None:
    first, second = ("a" * 59 + end for end in "xy")
    tagged = replace(CLUSTER, name=first, tags={"größe": "größe 東京"})
    assert all_problems([tagged, replace(CLUSTER, name=second)]) == ()
    assert stack_name(first, "storage") != stack_name(second, "storage")


def test_every_row_is_refused_here_or_says_where() -> None:
    here = {row for row, *_ in (*DECLARED, *DECLARED_MPI, *CONTEXT)} | {"BI-077", "BI-082"}
    assert not here & set(ELSEWHERE)
    assert {f"BI-{row}" for row in ROWS.split()} <= here | set(ELSEWHERE)
