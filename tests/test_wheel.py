"""The wheel alone, in clean environments and in empty folders: what README's session needs comes with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from slipway.jobs.core.images.container_images import image_names, image_tag
from slipway.jobs.core.installation import containers_folder
from tests.installed import Environment, build_wheel, make_environment


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("build"))


@pytest.fixture(scope="module")
def plain(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    return make_environment(tmp_path_factory.mktemp("plain"), wheel)


@pytest.fixture(scope="module")
def complete(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    return make_environment(tmp_path_factory.mktemp("complete"), wheel, ["infra", "yard"])


def test_the_version_says_tag_commit_and_extras(plain: Environment, tmp_path: Path) -> None:
    said = plain.run("slipway", "--version", cwd=tmp_path)
    assert said.stdout.startswith("slipway 0.9.1.dev1+g"), said.stderr
    assert "(commit " in said.stdout
    assert "extras: none)" in said.stdout


def test_estimates_and_instances_need_no_extra(plain: Environment, tmp_path: Path) -> None:
    estimated = plain.run("slipway", "estimate", "bert_pretrain", "--on", "dl1.24xlarge", cwd=tmp_path)
    assert estimated.returncode == 0, estimated.stderr
    assert plain.run("slipway", "instances", "--json", cwd=tmp_path).returncode == 0


def test_the_yard_without_its_extra_says_what_to_install(plain: Environment, tmp_path: Path) -> None:
    refused = plain.run("slipway", "yard", "up", cwd=tmp_path)
    assert refused.returncode == 1
    error, hint = refused.stderr.splitlines()
    assert error.startswith("error: the yard needs moto, cfn-lint")
    assert hint.startswith("hint: pip install 'slipway[yard]'")


def test_the_yard_starts_and_stops_from_the_wheel(complete: Environment, tmp_path: Path) -> None:
    up = complete.run("slipway", "yard", "up", cwd=tmp_path)
    down = complete.run("slipway", "yard", "down", cwd=tmp_path)
    assert (up.returncode, down.returncode) == (0, 0), f"{up.stderr}{down.stderr}"


def test_the_cdk_app_without_its_extra_says_what_to_install(plain: Environment, tmp_path: Path) -> None:
    refused = plain.run("python", "-P", "-m", "slipway.infra", cwd=tmp_path)
    assert refused.returncode == 1
    error, hint = refused.stderr.splitlines()
    assert error.startswith("error: the CDK app of Slipway needs aws-cdk-lib")
    assert hint.startswith("hint: pip install 'slipway[infra]'")


def test_a_data_file_that_was_lost_is_named_with_what_to_do(plain: Environment, tmp_path: Path) -> None:
    lost = plain.packages / "slipway" / "jobs" / "catalogue" / "instances.csv"
    kept = lost.rename(tmp_path / "kept.csv")
    refused = plain.run("slipway", "instances", cwd=tmp_path)
    kept.rename(lost)
    assert refused.returncode == 1
    error, hint = refused.stderr.splitlines()
    assert error == f"error: slipway is installed without its data files: {lost} is missing"
    assert hint.startswith("hint: install it again")


def test_images_have_the_tags_that_they_have_in_the_checkout(plain: Environment) -> None:
    here, there = containers_folder(), plain.packages / "slipway" / "containers"
    assert image_names(there) == image_names(here)
    assert {image_tag(there, name) for name in image_names(there)} == {
        image_tag(here, name) for name in image_names(here)
    }
