"""boto3 meets keys, unsupported calls and scripted faults as on AWS."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from botocore.exceptions import ConnectionClosedError

from slipway.jobs.cloud.aws import AccessKey, client_at
from slipway.jobs.words.errors import SlipwayError
from slipway.yard.endpoint import ACCESS_KEY_ID, CONTROL_SERVICE, control
from slipway.yard.gateway.faults import Fault, FaultKind, script, scripted, unscript
from tests.yard.accounts import own_image
from tests.yard.asking import BY_ACCOUNT, EVERYTHING, client_of, make_role, refusal, send, send_signed
from tests.yard.conftest import REGION, RunningYard

# One service of each protocol, with a call without parameters, and its refusals of a key and of a secret.
IN_QUERY = ("InvalidClientTokenId", "SignatureDoesNotMatch", 403)
IN_JSON = ("UnrecognizedClientException", "InvalidSignatureException")
MACHINE = "arn:aws:states:us-east-1:123456789012:stateMachine:m"
PROTOCOLS = {
    "ec2": ("ec2", "describe_vpcs", *IN_QUERY),
    "json": ("ecs", "list_clusters", *IN_JSON, 400),
    "query": ("sts", "get_caller_identity", *IN_QUERY),
    "rest-json": ("batch", "describe_job_queues", *IN_JSON, 403),
    "rest-xml": ("s3", "list_buckets", "InvalidAccessKeyId", "SignatureDoesNotMatch", 403),
}


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_yards_own_key_opens_it_in_every_protocol_and_no_other_key_or_secret_does(
    yard: RunningYard, protocol: str
) -> None:
    service, operation, of_key, of_secret, status = PROTOCOLS[protocol]
    answer = getattr(yard.client(service), operation)()
    assert answer["ResponseMetadata"]["HTTPStatusCode"] == 200
    stranger = client_at(yard.endpoint, service, REGION, AccessKey("AKIAREALACCOUNTKEY", "real"))
    refused = refusal(getattr(stranger, operation))
    assert (refused["Code"], refused["status"]) == (of_key, status)
    assert "this is the yard, not AWS" in refused["Message"]
    assert 'eval "$(slipway yard env)"' in refused["Message"]
    other = client_at(yard.endpoint, service, REGION, AccessKey(ACCESS_KEY_ID, "not-a-secret"))
    refused = refusal(getattr(other, operation))
    assert (refused["Code"], refused["status"]) == (of_secret, status)
    assert 'eval "$(slipway yard env)"' in refused["Message"]


def test_a_key_from_the_yards_own_sts_opens_it_until_a_reset_which_takes_everything(
    yard: RunningYard,
) -> None:
    role = make_role(yard, "cdk-deploy", BY_ACCOUNT, EVERYTHING)
    given = yard.client("sts").assume_role(RoleArn=role, RoleSessionName="cdk")["Credentials"]
    assumed = client_of(yard, "s3", given)
    assumed.create_bucket(Bucket="gone")
    yard.client("ec2").create_placement_group(GroupName="gone")
    control(yard, "POST", "/reset")
    assert refusal(assumed.list_buckets)["Code"] == "InvalidAccessKeyId"
    assert yard.client("s3").list_buckets()["Buckets"] == []
    assert yard.client("ec2").describe_placement_groups()["PlacementGroups"] == []
    assert yard.client("cloudtrail").lookup_events()["Events"] == []  # where the CDK looks after a failure


def test_an_unsigned_request_is_refused(yard: RunningYard) -> None:
    status, answer = send("GET", f"{yard.endpoint}/bucket/key")
    assert (status, json.loads(answer)["__type"]) == (403, "MissingAuthenticationToken")


@pytest.mark.parametrize(
    ("service", "operation", "parameters", "named"),
    [
        ("fsx", "describe_data_repository_associations", {}, "fsx:DescribeDataRepositoryAssociations"),
        ("braket", "search_devices", {"filters": []}, "braket:SearchDevices"),
        ("ec2", "describe_vpcs", {"Filters": [{"Name": "no-such", "Values": ["a"]}]}, "ec2:DescribeVpcs"),
        ("imagebuilder", "list_workflows", {}, "imagebuilder:ListWorkflows"),
        ("stepfunctions", "start_execution", {"stateMachineArn": MACHINE}, "stepfunctions:"),  # would only
        ("ecs", "run_task", {"taskDefinition": "t"}, "ecs:"),  # pretend
    ],
)
def test_what_the_yard_has_not_is_one_clear_error_that_no_sdk_repeats(
    yard: RunningYard, service: str, operation: str, parameters: dict[str, Any], named: str
) -> None:
    refused = refusal(getattr(yard.client(service), operation), **parameters)
    assert (refused["Code"], refused["status"]) == ("NotImplemented", 501)
    assert f"does not emulate {named}" in refused["Message"]


def test_a_crash_of_moto_is_one_error_that_names_the_call(yard: RunningYard) -> None:
    refused = refusal(yard.client("sagemaker").describe_experiment, ExperimentName="nobodys")
    assert (refused["Code"], refused["status"]) == ("InternalFailure", 501)
    assert "the yard failed in sagemaker:DescribeExperiment: KeyError" in refused["Message"]
    assert "slipway yard logs" in refused["Message"]


def test_regions_do_not_see_each_other(yard: RunningYard) -> None:
    yard.client("ecs", "us-east-1").create_cluster(clusterName="here")
    assert yard.client("ecs", "eu-west-1").list_clusters()["clusterArns"] == []


def test_what_aws_brings_is_as_new_after_a_reset(yard: RunningYard) -> None:
    """The second reset differs from the first: from then on images and policies are copies."""
    arn = "arn:aws:iam::aws:policy/ReadOnlyAccess"
    for _ in range(3):
        ec2, iam = yard.client("ec2"), yard.client("iam")
        image = ec2.describe_images(Owners=["amazon"])["Images"][0]
        snapshot = image["BlockDeviceMappings"][0]["Ebs"]["SnapshotId"]
        asked = {"ImageId": image["ImageId"], "Attribute": "launchPermission"}
        assert ec2.describe_snapshots(SnapshotIds=[snapshot])["Snapshots"]
        assert ec2.describe_image_attribute(**asked)["LaunchPermissions"] == [{"Group": "all"}]
        assert iam.get_policy(PolicyArn=arn)["Policy"]["AttachmentCount"] == 0
        iam.create_user(UserName="reader")
        iam.attach_user_policy(UserName="reader", PolicyArn=arn)
        ec2.modify_image_attribute(**asked, LaunchPermission={"Add": [{"UserId": "210987654321"}]})
        ec2.deregister_image(ImageId=image["ImageId"])
        control(yard, "POST", "/reset")


def test_the_yard_and_its_controls_are_on_this_machine_only(yard: RunningYard) -> None:
    assert yard.endpoint.startswith("http://127.0.0.1:")
    assert ACCESS_KEY_ID[:4] not in ("AKIA", "ASIA")
    for elsewhere in ("https://ec2.us-east-1.amazonaws.com", "http://10.0.0.1:5566"):
        with pytest.raises(SlipwayError, match="not on this machine"):
            control(replace(yard, endpoint=elsewhere), "POST", "/reset")
        with pytest.raises(SlipwayError, match="not on this machine"):
            script(replace(yard, endpoint=elsewhere), fault("ecs", "ListClusters", FaultKind.THROTTLE))


# Scripted faults, as boto3 feels them.
# The code of each service; the others say ThrottlingException.
THROTTLED = {
    "batch": ("TooManyRequestsException", 429),
    "ec2": ("RequestLimitExceeded", 503),
    "s3": ("SlowDown", 503),
    "sts": ("Throttling", 400),
}


def fault(service: str, operation: str, kind: FaultKind, **more: Any) -> Fault:
    return Fault(service=service, operation=operation, kind=kind, **more)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_throttled_call_is_refused_as_often_as_asked_and_then_served(
    yard: RunningYard, protocol: str
) -> None:
    service, operation, *_ = PROTOCOLS[protocol]
    script(yard, fault(service, "*", FaultKind.THROTTLE, times=2))
    call = getattr(yard.client(service), operation)
    for _ in range(2):
        refused = refusal(call)
        assert (refused["Code"], refused["status"]) == THROTTLED.get(service, ("ThrottlingException", 400))
    assert call()["ResponseMetadata"]["HTTPStatusCode"] == 200
    assert scripted(yard)[0]["struck"] == 2


def test_a_dropped_response_hides_a_call_that_was_carried_out(yard: RunningYard) -> None:
    """This is the trap of every retry: the first request was carried out."""
    script(yard, fault("ecs", "CreateCluster", FaultKind.DROP_RESPONSE))
    with pytest.raises(ConnectionClosedError):
        yard.client("ecs").create_cluster(clusterName="made")
    assert [arn.rpartition("/")[2] for arn in yard.client("ecs").list_clusters()["clusterArns"]] == ["made"]


def test_insufficient_capacity_makes_nothing(yard: RunningYard) -> None:
    script(yard, fault("ec2", "RunInstances", FaultKind.INSUFFICIENT_CAPACITY))
    ec2 = yard.client("ec2")
    image = own_image(ec2)
    wanted = {"ImageId": image, "InstanceType": "dl1.24xlarge", "MinCount": 1, "MaxCount": 1}
    assert refusal(ec2.run_instances, **wanted)["Code"] == "InsufficientInstanceCapacity"
    assert ec2.describe_instances()["Reservations"] == []
    assert len(ec2.run_instances(**wanted)["Instances"]) == 1


def test_a_sequence_of_answers_is_served_in_order_and_then_the_service_answers(yard: RunningYard) -> None:
    states = ["RUNNABLE", "RUNNING", "SUCCEEDED"]
    answers = [
        {
            "jobs": [
                {
                    "jobId": "j",
                    "jobName": "n",
                    "jobQueue": "q",
                    "jobDefinition": "d",
                    "status": state,
                    "startedAt": 7,
                }
            ]
        }
        for state in states
    ]
    script(yard, fault("batch", "DescribeJobs", FaultKind.RESPOND, body=answers, times=2))
    batch = yard.client("batch")
    seen = [batch.describe_jobs(jobs=["j"])["jobs"][0]["status"] for _ in range(4)]
    assert seen == [*states, "SUCCEEDED"]
    assert batch.describe_jobs(jobs=["j"])["jobs"] == []


def test_a_scripted_answer_reads_as_the_services_own_in_every_protocol(yard: RunningYard) -> None:
    bodies: dict[str, tuple[str, dict[str, Any]]] = {
        "ec2": ("DescribeVpcs", {"Vpcs": [{"VpcId": "vpc-scripted", "Tags": []}]}),
        "ecs": ("ListClusters", {"clusterArns": ["scripted"]}),
        "sts": ("GetCallerIdentity", {"Account": "999999999999"}),
        "s3": ("ListBuckets", {"Buckets": [{"Name": "scripted", "CreationDate": "2026-01-01T00:00:00Z"}]}),
    }
    for service, (operation, body) in bodies.items():
        script(yard, fault(service, operation, FaultKind.RESPOND, body=[body]))
    assert yard.client("ec2").describe_vpcs()["Vpcs"][0]["VpcId"] == "vpc-scripted"
    assert yard.client("ecs").list_clusters()["clusterArns"] == ["scripted"]
    assert yard.client("sts").get_caller_identity()["Account"] == "999999999999"
    assert yard.client("s3").list_buckets()["Buckets"][0]["CreationDate"].year == 2026


def test_rules_strike_one_after_the_other_and_an_endless_one_until_it_is_cleared(yard: RunningYard) -> None:
    rule = b'{"service": "ecs", "operation": "ListClusters", "kind": "throttle"}'
    assert send_signed(yard, CONTROL_SERVICE, "/_yard/faults", rule, {})[0] == 200, "it is plain HTTP"
    script(yard, fault("ecs", "ListClusters", FaultKind.SERVER_ERROR, times=None))
    clusters = yard.client("ecs").list_clusters
    struck = [refusal(clusters) for _ in range(4)]
    assert [each["status"] for each in struck] == [400, 500, 500, 500]
    assert [each["Code"] for each in struck[:2]] == ["ThrottlingException", "InternalFailure"]
    assert yard.client("ecs").list_account_settings()["settings"] == [], "other calls go through"
    unscript(yard)
    assert clusters()["clusterArns"] == []
    assert scripted(yard) == []


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ({"service": "batch", "operation": "SubmitJb", "kind": "throttle"}, "SubmitJob"),
        ({"service": "bach", "operation": "SubmitJob", "kind": "throttle"}, "no service 'bach'"),
        (
            {"service": "batch", "operation": "SubmitJob", "kind": "slow"},
            "kind is 'slow'; allowed are throttle",
        ),
        ({"service": "batch", "operation": "SubmitJob", "kind": "throttle", "times": 0}, "times is 0"),
        ({"service": "batch", "operation": "SubmitJob", "kind": "respond"}, "with 0 results in body"),
        ({"service": "batch", "operation": "SubmitJob", "kind": "throttle", "when": 1}, "unknown keys"),
        ([], "a rule is an object"),
    ],
)
def test_a_rule_that_could_never_strike_is_refused(yard: RunningYard, rule: object, said: str) -> None:
    with pytest.raises(SlipwayError, match=said):
        control(yard, "POST", "/faults", rule)
    assert scripted(yard) == []
