"""The files that people expect of a project are there, and need nothing from outside."""

from __future__ import annotations

import tomllib

import yaml

from tests.architecture import tracked


def test_the_licence_is_apache_s_and_the_package_says_so() -> None:
    assert "Copyright 2026 The Slipway authors" in tracked.text("LICENSE")
    assert "Version 2.0, January 2004" in tracked.text("LICENSE")
    project = tomllib.loads(tracked.text("pyproject.toml"))["project"]
    assert (project["license"], project["license-files"]) == ("Apache-2.0", ["LICENSE"])


def test_the_one_package_tells_type_checkers_that_it_is_typed() -> None:
    assert "slipway/py.typed" in tracked.paths("py.typed")
    data = tomllib.loads(tracked.text("pyproject.toml"))["tool"]["setuptools"]["package-data"]
    assert "py.typed" in data["*"]


def test_committing_runs_hooks_of_this_checkout_only() -> None:
    repos = yaml.safe_load(tracked.text(".pre-commit-config.yaml"))["repos"]
    assert [repo["repo"] for repo in repos] == ["local"]
    for hook in repos[0]["hooks"]:
        assert hook["language"] == "system"
        assert hook["entry"].startswith((".venv/bin/", "scripts/"))


def test_a_forge_builds_a_tag_by_the_script_that_everybody_can_run() -> None:
    workflow = yaml.safe_load(tracked.text(".github/workflows/release.yml"))
    assert workflow["permissions"] == {}, "each job says what it needs"
    assert {"run": "scripts/release"} in workflow["jobs"]["build"]["steps"]
    may_write = [
        name for name, job in workflow["jobs"].items() if job["permissions"].get("contents") == "write"
    ]
    assert may_write == ["publish"]


def test_a_forge_runs_what_everybody_can_run() -> None:
    (job,) = yaml.safe_load(tracked.text(".github/workflows/ci.yml"))["jobs"].values()
    assert job["container"]["image"].startswith("debian:")
    assert job["steps"][-1] == {"run": ".ci/run"}
