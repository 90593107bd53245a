"""`slipway cluster targets`: what infra wrote is listed; what another wrote is told and hides none."""

from __future__ import annotations

import json
from dataclasses import replace

from slipway.jobs.words.targets import encode_target, parameter_name
from tests.jobs.conftest import Slipway
from tests.jobs.words.test_targets import MPI_TARGET, TARGET
from tests.yard.conftest import RunningYard


def deploy(yard: RunningYard, name: str, value: str) -> None:
    yard.client("ssm").put_parameter(Name=parameter_name(name), Value=value, Type="String")


def test_every_deployed_target_is_listed(yard_shell: RunningYard, slipway: Slipway) -> None:
    for number in range(12):  # more than a page of SSM
        name = f"c{number}"
        deploy(yard_shell, name, encode_target(replace(TARGET, name=name)))
    code, out, _ = slipway("cluster", "targets", "--json")
    assert code == 0
    assert {target["name"] for target in json.loads(out)} == {f"c{number}" for number in range(12)}
    assert json.loads(out)[0]["queue_arn"] == TARGET.queue_arn


def test_nothing_deployed_is_an_empty_list(yard_shell: RunningYard, slipway: Slipway) -> None:
    assert slipway("cluster", "targets", "--json") == (0, "[]\n", "")
    assert slipway("cluster", "targets") == (0, "", "targets: none\n")


def test_one_target_is_shown_in_full(yard_shell: RunningYard, slipway: Slipway) -> None:
    deploy(yard_shell, "dl1", encode_target(TARGET))
    code, out, _ = slipway("cluster", "targets", "dl1")
    assert code == 0
    assert TARGET.queue_arn in out
    assert TARGET.repository_uri in out


def test_machines_and_batch_each_show_what_they_have_and_nothing_unknown(
    yard_shell: RunningYard, slipway: Slipway
) -> None:
    deploy(yard_shell, "c6i", encode_target(MPI_TARGET))
    deploy(yard_shell, "dl1", encode_target(TARGET))
    _, listed, _ = slipway("cluster", "targets")
    assert MPI_TARGET.machine_image in listed
    assert "unknown" not in listed
    for name, expected in (("c6i", MPI_TARGET.run_document), ("dl1", TARGET.queue_arn)):
        _, out, _ = slipway("cluster", "targets", name)
        assert expected in out
        assert "unknown" not in out


def test_a_damaged_record_is_told_and_the_others_are_listed(
    yard_shell: RunningYard, slipway: Slipway
) -> None:
    deploy(yard_shell, "dl1", encode_target(TARGET))
    deploy(yard_shell, "other", '{"schema": 0}')
    deploy(yard_shell, "later", '{"schema": 99}')
    code, out, err = slipway("cluster", "targets", "--json")
    assert code == 1
    assert [target["name"] for target in json.loads(out)] == ["dl1"]
    assert "error: the SSM parameter /slipway/targets/other has schema 0" in err
    assert "hint: deploy the cluster again" in err
    assert "error: the SSM parameter /slipway/targets/later has schema 99, but this Slipway reads 1" in err
    assert "hint: a newer Slipway wrote it" in err


def test_an_unknown_target_is_refused_with_those_that_are_there(
    yard_shell: RunningYard, slipway: Slipway
) -> None:
    deploy(yard_shell, "dl1", encode_target(TARGET))
    code, out, err = slipway("cluster", "targets", "dl2")
    assert (code, out) == (1, "")
    assert err == "error: no target is called 'dl2'\nhint: deployed are dl1\n"
