"""`slipway preflight` and the facts it gathers, against the yard."""

from __future__ import annotations

import json
import os
from dataclasses import replace

import pytest

from slipway.infra.declare.declared import declared_cluster
from slipway.jobs.cloud.aws import Unanswered, reader
from slipway.jobs.cloud.capacity import Quota, Reservation, ask_quota, ask_reservation
from slipway.jobs.cloud.deployed import ask_parameter
from slipway.jobs.clusters.preflight import facts
from slipway.jobs.words.installation import find_containers
from tests.jobs.conftest import Slipway
from tests.jobs.deployed import record_target
from tests.jobs.words.test_targets import TARGET
from tests.yard.accounts import stand_in
from tests.yard.conftest import REGION, RunningYard

MENDED = ("-c", "dl1.alert_email=team@slipway.test", "-c", "dl1.max_nodes=2")


TAGGED = {"ResourceType": "vpc", "Tags": [{"Key": "slipway:cluster", "Value": "dl1"}]}


def bootstrap(yard: RunningYard, version: str = "21") -> None:
    yard.client("ssm").put_parameter(Name="/cdk-bootstrap/hnb659fds/version", Value=version, Type="String")


def outcomes(out: str) -> dict[str, str]:
    return {row["check"]: row["outcome"] for row in json.loads(out)}


def test_on_a_bootstrapped_yard_nothing_fails_and_the_exit_code_is_0(
    yard_shell: RunningYard, slipway: Slipway
) -> None:
    bootstrap(yard_shell)
    stand_in(yard_shell)
    code, out, err = slipway("preflight", "dl1", *MENDED, "--json")
    assert "failed" not in outcomes(out).values(), out
    assert code == 0
    assert "0 failed" in err


@pytest.mark.usefixtures("yard_shell")
def test_what_is_missing_fails_with_its_fix_and_the_exit_code_is_1(slipway: Slipway) -> None:
    code, out, _ = slipway("preflight", "dl1", "--json")
    found = outcomes(out)
    assert code == 1
    assert found["CDK bootstrap"] == "failed"
    assert found["alert e-mail"] == "failed"
    assert found["type offered in the zone"] == "ok"
    assert all(row["fix"] for row in json.loads(out) if row["outcome"] == "failed")


@pytest.mark.usefixtures("yard_shell")
def test_a_zone_without_the_type_is_told_with_those_that_have_it(slipway: Slipway) -> None:
    code, out, _ = slipway("preflight", "dl1", "-c", "dl1.zone=us-east-1f")
    assert code == 1
    assert "dl1.24xlarge is not offered in us-east-1f today, but in us-east-1a" in out
    assert "AMI and AWS Batch" in out
    assert not [line for line in out.splitlines() if "SageMaker" in line or "AWS PCS" in line]


def test_a_wrong_override_is_refused_before_anything_is_asked(slipway: Slipway) -> None:
    err = slipway.refused("preflight", "dl1", "-c", "dl1.max_nodes=022", "-c", "dl2.zone=x", code=2)
    assert [line.split(":")[1].strip() for line in err.splitlines()] == [
        "dl1.max_nodes of the context",
        "dl2.zone of the context",
    ]


@pytest.mark.parametrize("word", ["", "dl1.max_nodes"])
def test_an_override_without_a_value_is_refused(slipway: Slipway, word: str) -> None:
    err = slipway.refused("preflight", "dl1", "-c", word, code=2)
    assert err == f"error: -c: '{word}' has no '='; write -c dl1.max_nodes=4\n"


def test_without_credentials_one_check_fails_and_no_other_is_tried(
    yard_shell: RunningYard, slipway: Slipway, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    nowhere = {"AWS_SHARED_CREDENTIALS_FILE": os.devnull, "AWS_CONFIG_FILE": os.devnull}
    endpoint = {"AWS_EC2_METADATA_DISABLED": "true", "AWS_ENDPOINT_URL": yard_shell.endpoint}
    for name, value in (nowhere | endpoint).items():
        monkeypatch.setenv(name, value)
    code, out, _ = slipway("preflight", "dl1", *MENDED, "--json")
    found = outcomes(out)
    assert code == 1
    assert [check for check, outcome in found.items() if outcome == "failed"] == ["credentials and account"]
    assert found["vCPU quota"] == "unknown"


def test_a_pushed_image_is_found_by_the_tag_of_the_job_definition(yard_shell: RunningYard) -> None:
    repository = yard_shell.client("ecr").create_repository(repositoryName="slipway/gaudi")["repository"]
    target = replace(TARGET, repository_uri=repository["repositoryUri"], image_tag="abc")
    record_target(yard_shell, target)
    cluster = declared_cluster("dl1")
    assert facts.ask_target(cluster) == target
    assert facts.ask_pushed(target) is False
    manifest = {"schemaVersion": 2, "mediaType": "application/vnd.docker.distribution.manifest.v2+json"}
    yard_shell.client("ecr").put_image(
        repositoryName="slipway/gaudi", imageManifest=json.dumps(manifest), imageTag="abc"
    )
    assert facts.ask_pushed(target) is True


@pytest.mark.usefixtures("yard_shell")
@pytest.mark.parametrize(
    ("type_name", "market", "name"),
    [
        ("dl1.24xlarge", "on-demand", "Running On-Demand DL instances"),
        ("trn1.32xlarge", "on-demand", "Running On-Demand Trn instances"),
        ("c6i.32xlarge", "on-demand", "Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances"),
        ("c6i.32xlarge", "spot", "All Standard (A, C, D, H, I, M, R, T, Z) Spot Instance Requests"),
    ],
)
def test_quotas_are_found_by_the_family_in_their_name(type_name: str, market: str, name: str) -> None:
    quota = ask_quota(type_name, REGION, market)
    assert isinstance(quota, Quota)
    assert quota.name == name


def test_a_reservation_is_read_with_its_zone_and_size(yard_shell: RunningYard) -> None:
    made = yard_shell.client("ec2").create_capacity_reservation(
        InstanceType="dl1.24xlarge",
        InstancePlatform="Linux/UNIX",
        AvailabilityZone="us-east-1a",
        InstanceCount=2,
    )["CapacityReservation"]
    found = ask_reservation(made["CapacityReservationId"], REGION)
    assert isinstance(found, Reservation)
    assert (found.zone, found.total, found.instance_type) == ("us-east-1a", 2, "dl1.24xlarge")
    assert ask_reservation("cr-0123456789abcdef0", REGION) is None


def test_what_is_gone_or_not_deployed_or_not_ours_is_none_and_no_refusal(yard_shell: RunningYard) -> None:
    assert facts.ask_machine_image("ami-0123456789abcdef0", REGION) is None
    assert ask_parameter("/slipway/nowhere", REGION) is None
    assert facts.ask_manifest("/slipway/nowhere/id", REGION) is None
    assert facts.ask_stack("slipway-bakery-gaudi-ecs", REGION) is None
    for text in ("not json", "[1]"):
        yard_shell.client("ssm").put_parameter(Name="/a/manifest", Value=text, Type="String", Overwrite=True)
        assert facts.ask_manifest("/a/id", REGION) is None


def test_all_that_is_asked_only_reads(yard_shell: RunningYard) -> None:
    with pytest.raises(AssertionError, match="PutParameter, which may change something"):
        reader("ssm", REGION).put_parameter(Name="/a", Value="b", Type="String")


def test_a_refusal_of_aws_names_the_permission(
    yard_shell: RunningYard, monkeypatch: pytest.MonkeyPatch
) -> None:
    from botocore.stub import Stubber

    ec2 = reader("ec2", REGION)
    with Stubber(ec2) as stub:
        stub.add_client_error("describe_instance_type_offerings", "UnauthorizedOperation", "not you", 403)
        refusal = facts.ask_zones("dl1.24xlarge", REGION)
    assert isinstance(refusal, Unanswered)
    assert (refusal.action, refusal.is_denied) == ("ec2:DescribeInstanceTypeOfferings", True)


def test_the_facts_of_this_checkout_are_gathered_from_its_images(yard_shell: RunningYard) -> None:
    gathered = facts.gather(declared_cluster("dl1"), find_containers())
    assert gathered.account == "123456789012"
    assert gathered.image_tag
    assert gathered.lock


def test_the_default_key_of_volumes_is_asked_and_set_back_by_the_named_command(
    yard_shell: RunningYard,
) -> None:
    ec2 = yard_shell.client("ec2")
    assert facts.ask_ebs_key(REGION) == facts.EbsKey(id="alias/aws/ebs", is_of_aws=True)
    own = yard_shell.client("kms").create_key()["KeyMetadata"]["Arn"]
    ec2.modify_ebs_default_kms_key_id(KmsKeyId=own)
    assert facts.ask_ebs_key(REGION) == facts.EbsKey(id=own, is_of_aws=False)
    ec2.reset_ebs_default_kms_key_id()
    assert facts.ask_ebs_key(REGION) == facts.EbsKey(id="alias/aws/ebs", is_of_aws=True)


def test_a_default_group_that_an_account_emptied_is_seen_and_mended(yard_shell: RunningYard) -> None:
    ec2 = yard_shell.client("ec2")
    assert facts.ask_default_group("dl1", REGION) is None
    network = ec2.create_vpc(CidrBlock="10.20.0.0/16", TagSpecifications=[TAGGED])["Vpc"]["VpcId"]
    whole = facts.ask_default_group("dl1", REGION)
    assert isinstance(whole, facts.DefaultGroup)
    assert (whole.admits_itself, whole.lets_out) == (True, True)
    found = ec2.describe_security_groups(Filters=[{"Name": "vpc-id", "Values": [network]}])
    (group,) = found["SecurityGroups"]
    ec2.revoke_security_group_ingress(GroupId=whole.id, IpPermissions=group["IpPermissions"])
    assert facts.ask_default_group("dl1", REGION) == replace(whole, admits_itself=False)
    own = [{"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": whole.id}]}]
    ec2.authorize_security_group_ingress(GroupId=whole.id, IpPermissions=own)
    assert facts.ask_default_group("dl1", REGION) == whole


def test_the_billing_tag_is_unseen_then_inactive_then_activated_by_the_named_command(
    yard_shell: RunningYard,
) -> None:
    assert facts.ask_cost_tag() is None
    yard_shell.client("ec2").create_vpc(CidrBlock="10.20.0.0/16", TagSpecifications=[TAGGED])
    assert facts.ask_cost_tag() == "Inactive"
    activated = [{"TagKey": "slipway:cluster", "Status": "Active"}]
    answer = yard_shell.client("ce").update_cost_allocation_tags_status(CostAllocationTagsStatus=activated)
    assert answer.get("Errors", []) == []
    assert facts.ask_cost_tag() == "Active"
