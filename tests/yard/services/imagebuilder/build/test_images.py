"""A pipeline of EC2 Image Builder in the yard makes an AMI that a parameter names."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from slipway.yard.endpoint import control
from tests.waiting import until
from tests.yard.asking import EVERYTHING, make_role, policy, refusal
from tests.yard.conftest import REGION
from tests.yard.services.imagebuilder.components.test_steps import bash, document
from tests.yard.services.imagebuilder.conftest import PROFILE, Baked, Bakery

PARAMETER = "/images/part/id"
DISTRIBUTION = {
    "region": REGION,
    "amiDistributionConfiguration": {
        "name": "slipway-cpu-mpi-{{ imagebuilder:buildDate }}",
        "description": "for c6i",
        "amiTags": {"slipway:image": "cpu-mpi"},
    },
    "ssmParameterConfigurations": [{"parameterName": PARAMETER, "dataType": "aws:ec2:image"}],
}


def test_a_good_bake_registers_an_ami_and_names_it_in_a_parameter(bakery: Bakery) -> None:
    baked = bakery.bake(document(bash("true")), distributions=[DISTRIBUTION])
    assert baked.status == "AVAILABLE", baked.reason
    (image,) = bakery.yard.client("ec2").describe_images(ImageIds=[baked.ami["image"]])["Images"]
    tags = {tag["Key"]: tag["Value"] for tag in image["Tags"]}
    assert tags["slipway:image"] == "cpu-mpi"
    assert tags["Ec2ImageBuilderArn"] == baked.image["arn"]
    assert (image["State"], image["Description"]) == ("available", "for c6i")
    assert image["Name"].startswith("slipway-cpu-mpi-20")
    value = bakery.yard.client("ssm").get_parameter(Name=PARAMETER)["Parameter"]["Value"]
    assert value == image["ImageId"]
    manifest = json.loads((baked.folder / "manifest.json").read_text())
    assert (manifest["recipe"], manifest["amis"]) == ("cpu-mpi", [image["ImageId"]])


def test_each_region_gets_an_ami_of_its_own_with_the_same_files(bakery: Bakery) -> None:
    baked = bakery.bake(
        document(bash("touch /here")), distributions=[{"region": "eu-west-1"}, {"region": REGION}]
    )
    first, second = baked.image["outputResources"]["amis"]
    assert [first["region"], second["region"]] == [REGION, "eu-west-1"]
    assert bakery.yard.client("ec2", "eu-west-1").describe_images(ImageIds=[second["image"]])["Images"]
    for ami in (first, second):
        assert (bakery.yard.home / "machine-images" / ami["image"] / "root/here").exists()


def test_all_components_are_built_before_one_is_validated_and_tested_on_a_machine_of_the_image(
    bakery: Bakery,
) -> None:
    parts = [
        document(bash("echo build 1"), phase="build"),
        document(bash("echo validate 2", "touch /validated"), phase="validate"),
        document(bash("echo build 3"), phase="build"),
        document(bash("ls /validated", "touch /tested", "ls /tmp"), phase="test"),
    ]
    baked = bakery.bake(*parts)
    said = [line for line in baked.lines if line in ("build 1", "build 3", "validate 2", "/validated")]
    assert said == ["build 1", "build 3", "validate 2", "/validated"]
    assert (baked.folder / "root/validated").exists()
    assert not (baked.folder / "root/tested").exists()


def test_a_test_that_fails_leaves_no_ami(bakery: Bakery) -> None:
    baked = bakery.bake(document(bash("exit 1"), phase="test"), distributions=[DISTRIBUTION])
    assert (baked.status, baked.image["outputResources"]) == ("FAILED", {"amis": []})
    assert refusal(bakery.yard.client("ssm").get_parameter, Name=PARAMETER)["Code"] == "ParameterNotFound"
    assert list((bakery.yard.home / "machine-images").iterdir()) == []


def test_a_pipeline_without_tests_runs_none(bakery: Bakery) -> None:
    baked = bakery.bake(
        document(bash("exit 1"), phase="test"), imageTestsConfiguration={"imageTestsEnabled": False}
    )
    assert baked.status == "AVAILABLE"


def test_the_same_token_is_the_same_image_and_another_is_the_next_build(bakery: Bakery) -> None:
    pipeline = bakery.pipeline(document(bash("true")))
    first = bakery.start(pipeline, clientToken="a" * 32)
    assert bakery.start(pipeline, clientToken="a" * 32) == first
    second = bakery.start(pipeline, clientToken="b" * 32)
    assert (first.rpartition("/")[2], second.rpartition("/")[2]) == ("1", "2")
    assert bakery.ended(second).status == "AVAILABLE"
    listed = bakery.builder.list_image_pipeline_images(imagePipelineArn=pipeline)["imageSummaryList"]
    assert [image["arn"] for image in listed] == [first, second]
    (version,) = bakery.builder.list_images()["imageVersionList"]
    builds = bakery.builder.list_image_build_versions(imageVersionArn=version["arn"])["imageSummaryList"]
    assert [image["arn"] for image in builds] == [first, second]


def test_progress_shows_the_workflow_its_step_and_its_component(bakery: Bakery) -> None:
    image = bakery.start(bakery.pipeline(document(bash("echo waiting", "while true; do sleep 0.1; done"))))
    until(lambda: "waiting" in bakery.lines(image))
    assert bakery.state(image) == "BUILDING"
    workflows = bakery.builder.list_workflow_executions(imageBuildVersionArn=image)["workflowExecutions"]
    assert [workflow["type"] for workflow in workflows] == ["BUILD", "TEST", "DISTRIBUTION"]
    assert [workflow["status"] for workflow in workflows] == ["RUNNING", "PENDING", "PENDING"]
    asked = {"workflowExecutionId": workflows[0]["workflowExecutionId"]}
    steps = bakery.builder.list_workflow_step_executions(**asked)["steps"]
    assert [(step["name"], step["status"]) for step in steps] == [
        ("LaunchBuildInstance", "COMPLETED"),
        ("ApplyBuildComponents", "RUNNING"),
    ]
    assert steps[1]["message"] == "part 0, build (1 of 2)"
    assert bakery.builder.get_workflow_execution(**asked)["totalStepsSucceeded"] == 1
    bakery.builder.cancel_image_creation(imageBuildVersionArn=image)
    baked = bakery.ended(image)
    assert (baked.status, baked.image["outputResources"]) == ("CANCELLED", {"amis": []})


def test_a_cancelled_bake_leaves_no_process_and_no_folder(bakery: Bakery) -> None:
    mark = f"sleep 4{os.getpid()}"
    image = bakery.start(bakery.pipeline(document(bash("echo waiting", f"{mark} & {mark}"))))
    until(lambda: "waiting" in bakery.lines(image))
    assert processes(mark)
    bakery.builder.cancel_image_creation(imageBuildVersionArn=image)
    assert bakery.ended(image).status == "CANCELLED"
    until(lambda: not processes(mark))
    until(lambda: not list((bakery.yard.home / "machine-images").iterdir()))
    refused = refusal(bakery.builder.cancel_image_creation, imageBuildVersionArn=image)
    assert (refused["Code"], "CANCELLED already" in refused["Message"]) == ("InvalidRequestException", True)


def processes(mark: str) -> list[str]:
    return having(lambda words: words.replace(b"\0", b" ").strip() == mark.encode())


def having(is_wanted: Callable[[bytes], bool]) -> list[str]:
    """Return the processes with such a command line."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # it ends just now
            if is_wanted(path.read_bytes()):
                found.append(path.parent.name)
    return found


def test_bakes_take_turns_and_one_that_waits_can_be_cancelled(bakery: Bakery) -> None:
    pipeline = bakery.pipeline(document(bash("echo waiting", "sleep 1000")))
    first = bakery.start(pipeline)
    until(lambda: "waiting" in bakery.lines(first))
    second = bakery.start(pipeline)
    assert bakery.state(second) == "PENDING"
    bakery.builder.cancel_image_creation(imageBuildVersionArn=second)
    assert bakery.ended(second).status == "CANCELLED"
    control(bakery.yard, "POST", "/reset")  # ends the first
    assert bakery.builder.list_images()["imageVersionList"] == []


def test_an_image_is_deleted_when_it_has_ended_and_its_ami_stays(bakery: Bakery) -> None:
    baked = bakery.bake(document(bash("true")))
    bakery.builder.delete_image(imageBuildVersionArn=baked.image["arn"])
    gone = refusal(bakery.builder.get_image, imageBuildVersionArn=baked.image["arn"])
    assert gone["Code"] == "ResourceNotFoundException"
    assert bakery.yard.client("ec2").describe_images(ImageIds=[baked.ami["image"]])["Images"]


def test_a_recipe_of_a_component_of_amazons_is_baked_without_it(bakery: Bakery) -> None:
    theirs = "arn:aws:imagebuilder:us-east-1:aws:component/update-linux/x.x.x"
    recipe = bakery.builder.create_image_recipe(
        name="plain",
        semanticVersion="1.0.0",
        parentImage="ami-12c6146b",
        components=[{"componentArn": theirs}],
    )
    where = bakery.builder.create_infrastructure_configuration(name="other", instanceProfileName="builder")
    image = bakery.builder.create_image(
        imageRecipeArn=recipe["imageRecipeArn"],
        infrastructureConfigurationArn=where["infrastructureConfigurationArn"],
    )["imageBuildVersionArn"]
    baked = bakery.ended(image)
    assert baked.status == "AVAILABLE", baked.reason
    assert any(theirs in line and "left out" in line for line in baked.lines)


def test_a_bake_without_its_instance_profile_fails(bakery: Bakery) -> None:
    bakery.yard.client("iam").delete_instance_profile(InstanceProfileName="builder")
    baked = bakery.bake(document(bash("true")))
    assert (baked.status, "NoSuchEntity" in baked.reason) == ("FAILED", True)
    assert baked.image["state"]["failureContext"]["failedStep"] == "LaunchBuildInstance"


def test_a_document_that_cannot_be_run_is_refused_when_the_component_is_created(bakery: Bakery) -> None:
    refused = refusal(lambda: bakery.component(document({"name": "A", "action": "SetRegistry"})))
    assert refused["Code"] == "InvalidParameterValueException"
    assert "step build.A has the action 'SetRegistry'" in refused["Message"]


def test_what_a_step_started_ends_with_the_process_that_holds_it(bakery: Bakery) -> None:
    mark = f"sleep 5{os.getpid()}"
    image = bakery.start(bakery.pipeline(document(bash("echo waiting", mark))))
    until(lambda: processes(mark))
    (step,) = processes(mark)
    holder = having(
        lambda words: (
            b"slipway.yard.services.imagebuilder.machine.inside" in words
            and str(bakery.yard.home).encode() in words
        )
    )[0]
    assert step != holder
    os.kill(int(holder), signal.SIGKILL)
    until(lambda: not processes(mark))
    assert bakery.ended(image).status == "FAILED"


# A bake does what its roles allow, and ends if they do not allow a step.


BUILDER, MACHINE = "bake", "machine"


def bake(bakery: Bakery, role: str = "", action: str = "") -> Baked:
    """Bake with two roles that may do everything, except one action of one of them."""
    execution = make_role(bakery.yard, BUILDER, {"Service": "imagebuilder.amazonaws.com"}, EVERYTHING)
    make_role(bakery.yard, MACHINE, {"Service": "ec2.amazonaws.com"}, EVERYTHING)
    iam = bakery.yard.client("iam")
    iam.add_role_to_instance_profile(InstanceProfileName=PROFILE, RoleName=MACHINE)
    if action:
        deny = policy({"Effect": "Deny", "Action": action, "Resource": "*"})
        iam.put_role_policy(RoleName=role, PolicyName="deny", PolicyDocument=deny)
    return bakery.bake(document(bash("true")), distributions=[DISTRIBUTION], executionRole=execution)


def test_roles_that_may_do_it_all_bake_an_image(bakery: Bakery) -> None:
    baked = bake(bakery)
    assert baked.status == "AVAILABLE", baked.reason
    assert bakery.yard.client("ssm").get_parameter(Name=PARAMETER)


@pytest.mark.parametrize(
    ("role", "action", "step"),
    [
        (BUILDER, "iam:PassRole", "LaunchBuildInstance"),
        (BUILDER, "ec2:RunInstances", "LaunchBuildInstance"),
        (BUILDER, "ssm:SendCommand", "ApplyBuildComponents"),
        (MACHINE, "imagebuilder:GetComponent", "ApplyBuildComponents"),
        (BUILDER, "ec2:CreateImage", "CreateOutputAMI"),
        (BUILDER, "ssm:PutParameter", "DistributeImage"),
    ],
)
def test_a_bake_fails_in_the_step_whose_action_its_role_lacks(
    bakery: Bakery, role: str, action: str, step: str
) -> None:
    baked = bake(bakery, role, action)
    assert (baked.status, baked.image["state"]["failureContext"]["failedStep"]) == ("FAILED", step)
    assert f"/{role}/" in baked.reason
    assert f"is not authorized to perform: {action} on resource: " in baked.reason
