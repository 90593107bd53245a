"""Every version is exact and locked, and each lock agrees with what the project asks for."""

from __future__ import annotations

import json
import re
import tomllib
from typing import Any

import pytest

from tests.architecture import tracked

LOCKS = [path for path in tracked.paths(".txt") if path.startswith("scripts/locks/")]
OLDEST_CDK = (2, 1147, 0)  # the oldest that reads the cloud assembly of aws-cdk-lib 2.275
EXACT = re.compile(r"(?P<name>[\w.-]+)(?:\[[\w,]+\])?==(?P<version>[\w.+!-]+)")


def package_json(path: str) -> Any:
    return json.loads(tracked.text(path))


def locked(path: str) -> dict[str, str]:
    return {
        found["name"].lower(): found["version"]
        for line in tracked.text(path).splitlines()
        if (found := EXACT.match(line))
    }


def test_the_cdk_command_line_is_not_the_stray_release_3() -> None:
    """The registry's `latest` was 3.0.0 for a time: an old build that reads no current cloud assembly."""
    wanted = package_json("package.json")["devDependencies"]["aws-cdk"]
    assert re.fullmatch(r"2\.\d+\.\d+", wanted), f"aws-cdk is '{wanted}'; pin an exact 2.x in package.json"
    assert tuple(map(int, wanted.split("."))) >= OLDEST_CDK


def test_the_node_lock_agrees_with_package_json() -> None:
    wanted = package_json("package.json")["devDependencies"]
    packages = package_json("package-lock.json")["packages"]
    assert packages[""]["devDependencies"] == wanted
    for name, version in wanted.items():
        assert packages[f"node_modules/{name}"]["version"] == version
        assert packages[f"node_modules/{name}"]["integrity"].startswith("sha512-")


def test_there_are_locks_to_look_at() -> None:
    assert {"scripts/locks/submit.txt", "scripts/locks/develop.txt"} <= set(LOCKS)


@pytest.mark.parametrize("lock", LOCKS)
def test_every_line_of_a_lock_is_one_exact_version_with_hashes(lock: str) -> None:
    for requirement in tracked.text(lock).replace("\\\n", " ").splitlines():
        if requirement.strip() and not requirement.startswith("#"):
            assert EXACT.match(requirement), f"{lock}: {requirement.split()[0]} has no exact version"
            assert "--hash=sha256:" in requirement, f"{lock}: {requirement.split()[0]} has no hash"


def test_what_pyproject_pins_is_what_the_locks_hold() -> None:
    extras = tomllib.loads(tracked.text("pyproject.toml"))["project"]["optional-dependencies"]
    held = {name: version for lock in LOCKS for name, version in locked(lock).items()}
    pins = [found for extra in extras.values() for line in extra if (found := EXACT.fullmatch(line))]
    assert {"aws-cdk-lib", "moto", "cfn-lint", "cdk-nag"} <= {pin["name"] for pin in pins}
    for pin in pins:
        if pin["name"] != "torch":  # scripts/set_up.py installs it, from whichever index has a fitting build
            assert held[pin["name"].lower()] == pin["version"], pin["name"]


def test_any_two_groups_fit_together() -> None:
    versions: dict[str, set[str]] = {}
    for lock in (path for path in LOCKS if "/apart/" not in path):  # those have environments of their own
        for name, version in locked(lock).items():
            versions.setdefault(name, set()).add(version)
    assert not {name: found for name, found in versions.items() if len(found) > 1}
