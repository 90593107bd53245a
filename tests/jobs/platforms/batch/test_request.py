"""A request to AWS Batch is complete, means the same in the container, and is within Batch's limits."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway.containers.runtime.contract.launchers import read_contract
from slipway.containers.runtime.contract.settings import RankPosition, Settings
from slipway.containers.runtime.linux import Machine
from slipway.jobs.platforms.batch.request import (
    MOST_BYTES,
    MOST_OVERRIDES,
    STATES,
    BatchRequest,
    KnownImage,
    build_request,
)
from slipway.jobs.platforms.sending import refuse_malformed
from slipway.jobs.words.job import DoesNotFit, InvalidJob, Job
from slipway.jobs.words.run import JobState, translate
from tests.jobs.words.test_targets import TARGET

JOB = Job(name="bert", recipe="bert_pretrain", nodes=2, settings={"size": "tiny", "steps": "10"})
MODULE = "slipway.containers.recipes.bert_pretrain.train"


def request_for(job: Job = JOB, **changes: Any) -> BatchRequest:
    return build_request(job, replace(TARGET, **changes), module=MODULE)


def container(request: BatchRequest) -> dict[str, Any]:
    (override,) = request.submit["nodeOverrides"]["nodePropertyOverrides"]
    assert override["targetNodes"] == "0:"
    found: dict[str, Any] = override["containerOverrides"]
    return found


def environment(request: BatchRequest) -> dict[str, str]:
    return {each["name"]: each["value"] for each in container(request)["environment"]}


def test_the_deployed_definition_runs_the_launcher_on_as_many_nodes_as_asked() -> None:
    submit = request_for().submit
    assert (submit["jobQueue"], submit["jobDefinition"]) == (TARGET.queue_arn, TARGET.job_definition_arn)
    assert submit["nodeOverrides"]["numNodes"] == 2
    command = container(request_for())["command"]
    assert command[:6] == ["python", "-m", "slipway.containers.runtime.launch", "--module", MODULE, "--"]
    assert command[6:] == ["--set", "size=tiny", "--set", "steps=10"]
    assert json.dumps(submit) == json.dumps(request_for().submit), "the same job is the same request"


@given(value=st.text(st.characters(exclude_categories=("Cc", "Cs")), max_size=200))
def test_the_recipe_is_given_each_setting_as_one_word_whatever_it_holds(value: str) -> None:
    if "Ref::" in value:
        return
    job = replace(JOB, settings={"size": value})
    assert container(request_for(job))["command"][6:] == ["--set", f"size={value}"]


def test_the_container_reads_what_was_sent() -> None:
    """Our variables and those that Batch adds on node 1 make one contract."""
    request = request_for()
    batch = {
        "AWS_BATCH_JOB_ID": "b0c1#1",
        "AWS_BATCH_JOB_ATTEMPT": "1",
        "AWS_BATCH_JOB_NODE_INDEX": "1",
        "AWS_BATCH_JOB_NUM_NODES": "2",
        "AWS_BATCH_JOB_MAIN_NODE_INDEX": "0",
        "AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS": "10.20.0.5",
    }
    contract = read_contract({**environment(request), **batch}, Machine())
    assert (contract.job, contract.run, contract.nodes, contract.node) == (request.name, "b0c1", 2, 1)
    assert contract.data == "/mnt/shared/data"
    assert contract.checkpoints == f"/mnt/shared/checkpoints/{request.name}"
    assert contract.logs == f"/mnt/shared/logs/{request.name}"
    assert contract.deadline is not None


def test_the_launcher_starts_a_process_a_device_and_counts_the_devices_first() -> None:
    request = request_for()
    place = RankPosition(
        node=0, nodes=2, rank=0, world=2, local_rank=0, local_world=1, main_address="10.20.0.5", main_port=1
    )
    settings = Settings.of(environment(request), place, MODULE, [])
    assert (settings.processes, settings.accelerator, settings.accelerators) == (8, "habana", 8)
    assert settings.efa_interfaces == 4


@pytest.mark.parametrize(("asked", "processes"), [(None, 1), (4, 4)])
def test_a_node_without_accelerators_runs_one_process_or_as_many_as_asked(
    asked: int | None, processes: int
) -> None:
    sent = environment(request_for(replace(JOB, processes_per_node=asked), instance_type="c6i.32xlarge"))
    assert sent["SLIPWAY_PROCESSES_PER_NODE"] == str(processes)
    assert "SLIPWAY_ACCELERATOR" not in sent


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ("wiki", "/mnt/shared/wiki"),
        ("/scratch/wiki", "/scratch/wiki"),
        ("s3://bucket/wiki", "s3://bucket/wiki"),
    ],
)
def test_a_relative_place_lies_in_the_files_that_nodes_share(given: str, sent: str) -> None:
    assert environment(request_for(replace(JOB, data=given)))["SLIPWAY_DATA"] == sent


def test_nodes_that_share_no_files_are_given_no_place_in_them() -> None:
    assert not environment(request_for(file_system_mount=None)).keys() & {
        "SLIPWAY_DATA",
        "SLIPWAY_CHECKPOINTS",
        "SLIPWAY_LOGS",
    }
    with pytest.raises(InvalidJob, match="share no files"):
        request_for(replace(JOB, data="wiki"), file_system_mount=None)


def test_more_nodes_than_the_cluster_has_do_not_fit() -> None:
    with pytest.raises(DoesNotFit, match="asks for 17 nodes but cluster 'dl1' has 16") as refusal:
        request_for(replace(JOB, nodes=17))
    assert refusal.value.hint == "ask for at most 16, or raise max_nodes in clusters.py"
    with pytest.raises(DoesNotFit, match="asks for 172801 s"):
        request_for(replace(JOB, timeout_seconds=TARGET.job_timeout_seconds + 1))


def test_fewer_attempts_keep_the_rules_of_what_is_tried_again() -> None:
    """A job's retry strategy replaces the definition's as a whole."""
    strategy = request_for(replace(JOB, attempts=1)).submit["retryStrategy"]
    assert strategy["attempts"] == 1
    assert strategy["evaluateOnExit"][0] == {"action": "RETRY", "onExitCode": "85"}
    assert strategy["evaluateOnExit"][-1] == {"action": "EXIT", "onReason": "*"}


def test_the_model_of_the_service_takes_the_request_and_refuses_what_it_does_not_know() -> None:
    refuse_malformed("batch", "SubmitJob", request_for().submit)
    with pytest.raises(AssertionError, match="nodeOverride"):
        refuse_malformed("batch", "SubmitJob", {**request_for().submit, "nodeOverride": {}})


def test_more_than_batch_takes_of_a_job_is_refused() -> None:
    """ECS's limit for a container's command and environment is lower than AWS Batch's for a request."""
    with pytest.raises(InvalidJob, match=f"AWS Batch takes {MOST_OVERRIDES} at most"):
        request_for(replace(JOB, settings={"size": "x" * MOST_OVERRIDES}))
    with pytest.raises(InvalidJob, match=f"AWS Batch takes {MOST_BYTES} at most"):
        build_request(JOB, TARGET, module=MODULE, waits_for=["x" * 36] * 600)


def test_the_tag_of_a_long_image_is_within_what_batch_takes() -> None:
    image = f"123456789012.dkr.ecr.us-east-1.amazonaws.com/{'team/' * 40}bert:{'1' * 128}"
    tags = request_for(replace(JOB, image=image)).submit["tags"]
    assert tags["slipway:image"] == image[:256], "TagValue of the API's model has at most 256 characters"


def test_the_digest_is_recorded_and_changes_no_name() -> None:
    digest = f"sha256:{'0' * 64}"
    request = build_request(JOB, TARGET, module=MODULE, image=KnownImage(digest=digest))
    assert request.submit["tags"]["slipway:image-digest"] == digest
    assert request.name == request_for().name


def test_every_status_of_batch_has_a_word_of_ours_and_a_new_one_is_unknown() -> None:
    from botocore.loaders import Loader

    model = Loader().load_service_model("batch", "service-2")
    assert set(STATES) == set(model["shapes"]["JobStatus"]["enum"])
    assert translate(STATES, "HIBERNATING") is JobState.UNKNOWN
