"""Bakeries' templates have closed machines and one image for each lock, whose id is where clusters look."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from zipfile import ZipFile

import aws_cdk as cdk
import pytest
import yaml

from slipway.infra.app import build
from slipway.infra.clusters import MACHINE_IMAGES
from slipway.infra.declare.cdk_json import feature_flags
from slipway.infra.declare.machine_images import CONTAINERS, MachineImage, pinned_parent, read_component
from slipway.infra.patterns.images import image_pipeline
from slipway.infra.patterns.images.payload import payload_of
from slipway.infra.verify.rules import RULES
from slipway.jobs.words.images.ami_locks import lock_digest, lock_parameters
from slipway.jobs.words.images.amis import bakery_stack_name, decode_bakery, manifest_of
from tests.infra.synthesis import as_text, of_type, only

BY_NAME = {image.name: image for image in MACHINE_IMAGES}
NETWORK = "slipway-bakery-network-us-east-1"
IMAGE_BUILDER = "AWS::ImageBuilder"
MORE = {"efa": "# more\n"}
EVERY_IMAGE = pytest.mark.parametrize("name", BY_NAME)

Template = Mapping[str, Any]


def synthesize(images: tuple[MachineImage, ...]) -> Mapping[str, Template]:
    with TemporaryDirectory() as folder:
        app = cdk.App(outdir=folder, context=dict(feature_flags()))
        build(app, [], images)
        app.synth()
        return {
            path.name.removesuffix(".template.json"): json.loads(path.read_text(encoding="utf-8"))
            for path in Path(folder).glob("*.template.json")
        }


@lru_cache(maxsize=1)
def declared() -> Mapping[str, Template]:
    return synthesize(MACHINE_IMAGES)


def bakery(name: str) -> Template:
    return declared()[bakery_stack_name(name)]


def changed(name: str, **changes: Any) -> Template:
    return synthesize((replace(BY_NAME[name], **changes),))[bakery_stack_name(name)]


def statements(template: Template, role: str) -> dict[str, Any]:
    """Return the statements of Machine, Execution or Lifecycle by their ids."""
    policies = of_type(template, "AWS::IAM::ManagedPolicy")
    (policy,) = (each for name, each in policies.items() if f"Pipeline{role}" in name)
    return {each["Sid"]: each for each in policy["PolicyDocument"]["Statement"]}


def test_there_is_a_stack_an_image_and_one_network_for_all() -> None:
    assert set(declared()) == {NETWORK, *map(bakery_stack_name, BY_NAME)}


@EVERY_IMAGE
def test_machines_have_no_public_address_no_key_pair_and_tokens_only(name: str) -> None:
    machine = only(bakery(name), f"{IMAGE_BUILDER}::InfrastructureConfiguration")
    assert machine["InstanceMetadataOptions"] == {"HttpTokens": "required", "HttpPutResponseHopLimit": 1}
    assert "KeyPair" not in machine
    assert machine["TerminateInstanceOnFailure"] is True
    assert machine["InstanceTypes"] == [BY_NAME[name].instance_type]
    assert machine["SubnetId"]
    assert len(machine["SecurityGroupIds"]) == 1


def test_machines_reach_the_internet_by_https_and_nothing_reaches_them() -> None:
    network = declared()[NETWORK]
    assert all(not each["MapPublicIpOnLaunch"] for each in of_type(network, "AWS::EC2::Subnet").values())
    group = only(network, "AWS::EC2::SecurityGroup")
    assert "SecurityGroupIngress" not in group
    (rule,) = group["SecurityGroupEgress"]
    assert (rule["CidrIp"], rule["FromPort"], rule["ToPort"]) == ("0.0.0.0/0", 443, 443)
    assert not of_type(network, "AWS::EC2::SecurityGroupIngress")


@EVERY_IMAGE
def test_components_run_in_the_declared_order_with_the_values_of_the_lock(name: str) -> None:
    template, locked = bakery(name), lock_parameters(CONTAINERS, name)
    known = of_type(template, f"{IMAGE_BUILDER}::Component")
    used = only(template, f"{IMAGE_BUILDER}::ImageRecipe")["Components"]
    components = [known[each["ComponentArn"]["Fn::GetAtt"][0]] for each in used]
    prefix = f"{bakery_stack_name(name)}-"
    assert [component["Name"].removeprefix(prefix) for component in components] == list(
        BY_NAME[name].components
    )
    assert [component["Data"] for component in components] == list(
        map(read_component, BY_NAME[name].components)
    )
    told = {
        parameter["Name"]: parameter["Value"] for entry in used for parameter in entry.get("Parameters", [])
    }
    assert {key: [value] for key, value in locked.items()}.items() <= told.items()
    assert told.keys() - locked.keys() <= {"PayloadSource", "PayloadSha256"}


@EVERY_IMAGE
def test_an_image_says_by_its_tags_what_it_holds(name: str) -> None:
    (distribution,) = only(bakery(name), f"{IMAGE_BUILDER}::DistributionConfiguration")["Distributions"]
    image = distribution["AmiDistributionConfiguration"]
    assert image["Name"] == f"{bakery_stack_name(name)}-{{{{ imagebuilder:buildDate }}}}"
    manifest = manifest_of("ami-1", "2026-11-21", image["AmiTags"])
    assert manifest is not None
    assert (manifest.image, manifest.lock_digest) == (name, lock_digest(CONTAINERS, name))
    assert manifest.recipe_version == only(bakery(name), f"{IMAGE_BUILDER}::ImageRecipe")["Version"]
    assert manifest.versions["efa"] == lock_parameters(CONTAINERS, name)["HostEfa"]


@EVERY_IMAGE
def test_image_builder_publishes_the_id_where_clusters_look_and_may_write_nowhere_else(name: str) -> None:
    template = bakery(name)
    (distribution,) = only(template, f"{IMAGE_BUILDER}::DistributionConfiguration")["Distributions"]
    assert distribution["SsmParameterConfigurations"] == [
        {"ParameterName": f"/slipway/amis/{name}/id", "DataType": "aws:ec2:image"}
    ]
    pipeline = only(template, f"{IMAGE_BUILDER}::ImagePipeline")
    assert "ExecutionRole" in pipeline
    publish = statements(template, "Execution")["PublishId"]
    assert as_text(publish["Resource"]).endswith(f":parameter/slipway/amis/{name}/id")
    writers = [
        statement
        for statement in statements(template, "Execution").values()
        if "PutParameter" in str(statement)
    ]
    assert writers == [publish]


@EVERY_IMAGE
def test_a_pipeline_runs_only_when_started_and_tests_before_it_publishes(name: str) -> None:
    pipeline = only(bakery(name), f"{IMAGE_BUILDER}::ImagePipeline")
    assert "Schedule" not in pipeline
    assert pipeline["ImageTestsConfiguration"] == {"ImageTestsEnabled": True}
    logs = only(bakery(name), "AWS::Logs::LogGroup")
    kept = only(bakery(name), f"{IMAGE_BUILDER}::InfrastructureConfiguration")["Logging"]["S3Logs"]
    assert kept["S3KeyPrefix"] == name
    assert as_text(statements(bakery(name), "Machine")["KeepLogs"]["Resource"]).endswith(f"/{name}/*")
    assert logs["LogGroupName"] == f"/aws/imagebuilder/{bakery_stack_name(name)}"


@EVERY_IMAGE
def test_old_images_go_with_their_snapshots_and_the_newest_and_those_in_use_stay(name: str) -> None:
    policy = only(bakery(name), f"{IMAGE_BUILDER}::LifecyclePolicy")
    (detail,) = policy["PolicyDetails"]
    assert detail["Filter"] == {"Type": "COUNT", "Value": BY_NAME[name].keep_images}
    assert detail["Action"]["Type"] == "DELETE"
    assert detail["Action"]["IncludeResources"] == {"Amis": True, "Snapshots": True}
    assert detail["ExclusionRules"]["Amis"]["LastLaunched"] == {"Unit": "WEEKS", "Value": 12}
    (recipe,) = policy["ResourceSelection"]["Recipes"]
    assert recipe == {"Name": bakery_stack_name(name), "SemanticVersion": "x.x.x"}


@EVERY_IMAGE
def test_image_builder_changes_only_what_it_made(name: str) -> None:
    for role in ("Execution", "Lifecycle"):
        for sid, each in statements(bakery(name), role).items():
            actions = each["Action"] if isinstance(each["Action"], list) else [each["Action"]]
            dangerous = [
                action
                for action in actions
                if action.startswith(("ec2:Terminate", "ec2:Stop", "ec2:Dereg", "ec2:DeleteSn", "ec2:Modify"))
                or (action == "ec2:CreateImage" and ":instance/" in as_text(each["Resource"]))
            ]
            conditions = each.get("Condition", {}).get("StringEquals", {})
            assert not dangerous or conditions == {"ec2:ResourceTag/CreatedBy": "EC2 Image Builder"}, sid


@EVERY_IMAGE
def test_a_machine_reads_the_components_of_its_recipe_and_no_others(name: str) -> None:
    template = bakery(name)
    used = [each["ComponentArn"] for each in only(template, f"{IMAGE_BUILDER}::ImageRecipe")["Components"]]
    read = statements(template, "Machine")["ReadComponents"]["Resource"]
    assert sorted(each["Fn::GetAtt"] for each in read) == sorted(each["Fn::GetAtt"] for each in used)


@EVERY_IMAGE
def test_machines_are_started_in_the_network_of_the_bakery_and_nowhere_else(name: str) -> None:
    started = statements(bakery(name), "Execution")["StartFrom"]["Resource"]
    named = {as_text(arn).split(":")[-1].split("/")[0]: arn["Fn::Join"][1][-1] for arn in started}
    machine = only(bakery(name), f"{IMAGE_BUILDER}::InfrastructureConfiguration")
    assert (named["subnet"], [named["security-group"]]) == (machine["SubnetId"], machine["SecurityGroupIds"])


@EVERY_IMAGE
def test_the_record_tells_where_the_image_is_baked(name: str) -> None:
    parameter = only(bakery(name), "AWS::SSM::Parameter")
    assert parameter["Name"] == f"/slipway/bakeries/{name}"
    record = decode_bakery(as_text(parameter["Value"]), parameter="/slipway/bakeries")
    assert (record.name, record.region, record.parent) == (name, "us-east-1", pinned_parent(BY_NAME[name]))
    assert record.lock_digest == lock_digest(CONTAINERS, name)
    assert record.recipe_version == only(bakery(name), f"{IMAGE_BUILDER}::ImageRecipe")["Version"]
    assert (record.ami_parameter, record.manifest_parameter) == (
        f"/slipway/amis/{name}/id",
        f"/slipway/amis/{name}/manifest",
    )


def test_an_image_gets_the_files_of_this_project_and_the_code_of_jobs_only_where_it_runs_it() -> None:
    used = only(bakery("cpu-mpi"), f"{IMAGE_BUILDER}::ImageRecipe")["Components"]
    told = {each["Name"]: each["Value"] for entry in used for each in entry.get("Parameters", [])}
    assert told["PayloadSha256"] == [payload_of("cpu-mpi").digest]
    for name in ("cpu-mpi", "gaudi-ecs", "neuron-slurm"):
        assert "ReadPayload" in statements(bakery(name), "Machine")
    held = {
        name: set(ZipFile(BytesIO(payload_of(name).content)).namelist()) for name in ("cpu-mpi", "gaudi-ecs")
    }
    assert any(each.endswith(".whl") for each in held["cpu-mpi"])
    assert {each.partition("/")[0] for each in held["gaudi-ecs"]} == {"boot"}
    assert "boot/units/slipway-watchdog.timer" in held["gaudi-ecs"] & held["cpu-mpi"]


def versions(template: Template) -> dict[str, str]:
    """List the names of all components and of the recipe, which has the stack's name."""
    kinds = (f"{IMAGE_BUILDER}::Component", f"{IMAGE_BUILDER}::ImageRecipe")
    found = [each for kind in kinds for each in of_type(template, kind).values()]
    return {each["Name"]: each["Version"] for each in found}


def test_a_component_with_other_content_has_another_version_and_so_has_the_recipe(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Image Builder accepts no other content for a version that it has."""
    monkeypatch.setattr(
        image_pipeline, "read_component", lambda name: read_component(name) + MORE.get(name, "")
    )
    before, after = versions(bakery("gaudi-ecs")), versions(changed("gaudi-ecs"))
    differing = {name for name in before if before[name] != after[name]}
    assert differing == {"slipway-bakery-gaudi-ecs", "slipway-bakery-gaudi-ecs-efa"}
    monkeypatch.undo()
    after = versions(changed("gaudi-ecs", root_volume_gib=61))
    assert {name for name in before if before[name] != after[name]} == {"slipway-bakery-gaudi-ecs"}


def test_a_parent_by_id_needs_no_right_to_look_it_up() -> None:
    template = changed("gaudi-ecs", parent="ami-0123456789abcdef0")
    assert only(template, f"{IMAGE_BUILDER}::ImageRecipe")["ParentImage"] == "ami-0123456789abcdef0"
    assert "FindParent" not in statements(template, "Execution")
    found = statements(bakery("gaudi-ecs"), "Execution")["FindParent"]
    assert "/aws/service/canonical/" in as_text(found["Resource"])


@pytest.mark.parametrize("stack", [NETWORK, *map(bakery_stack_name, BY_NAME)])
@pytest.mark.parametrize("rule", RULES)
def test_every_rule_of_ours_holds(stack: str, rule: str) -> None:
    assert list(RULES[rule](declared()[stack])) == []


# What Image Builder may do in this account, with which key, and how long a bake may take.


@EVERY_IMAGE
def test_image_builder_takes_its_roles_for_this_account_alone(name: str) -> None:
    for resource in of_type(bakery(name), "AWS::IAM::Role").values():
        (trust,) = resource["AssumeRolePolicyDocument"]["Statement"]
        service = trust["Principal"]["Service"]
        if service == "imagebuilder.amazonaws.com":
            assert trust["Condition"] == {"StringEquals": {"aws:SourceAccount": {"Ref": "AWS::AccountId"}}}
        else:
            assert service == "ec2.amazonaws.com", "EC2 names no account"


@EVERY_IMAGE
def test_image_builder_may_register_what_it_makes_and_tag_it_as_it_is_made(name: str) -> None:
    may = statements(bakery(name), "Execution")
    assert "ec2:RegisterImage" in may["MakeImages"]["Action"]
    assert may["TagAsItMakes"]["Condition"] == {
        "StringEquals": {"ec2:CreateAction": ["CreateImage", "RunInstances"]}
    }


@EVERY_IMAGE
def test_disks_use_the_key_of_aws_whatever_the_default_of_the_account_is(name: str) -> None:
    recipe = only(bakery(name), f"{IMAGE_BUILDER}::ImageRecipe")
    (disk,) = recipe["BlockDeviceMappings"]
    assert disk["Ebs"]["Encrypted"] is True
    assert as_text(disk["Ebs"]["KmsKeyId"]).endswith(":alias/aws/ebs")
    agent = recipe["AdditionalInstanceConfiguration"]["SystemsManagerAgent"]
    assert agent == {"UninstallAfterBuild": False}


@EVERY_IMAGE
def test_every_step_of_a_bake_ends_and_a_failed_one_ends_its_machine(name: str) -> None:
    """A step without its own limit has Image Builder's two hours; -1 would mean none."""
    for component in of_type(bakery(name), f"{IMAGE_BUILDER}::Component").values():
        for phase in yaml.safe_load(component["Data"])["phases"]:
            limits = [int(step.get("timeoutSeconds", 7200)) for step in phase["steps"]]
            assert all(0 < limit <= 7200 for limit in limits)
    machine = only(bakery(name), f"{IMAGE_BUILDER}::InfrastructureConfiguration")
    assert machine["TerminateInstanceOnFailure"] is True
