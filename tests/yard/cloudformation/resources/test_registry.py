"""The list of types is complete, cheap to load and clear about missing and recorded types."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from importlib import import_module
from typing import Any

import pytest

from slipway.yard.cloudformation.resources import registry
from slipway.yard.cloudformation.resources.provider import Fidelity, Resource
from slipway.yard.cloudformation.resources.recorded import records
from slipway.yard.cloudformation.template import schemas
from slipway.yard.errors import ApiError
from tests.yard.asking import refusal
from tests.yard.cloudformation.resources.cases import CASES
from tests.yard.cloudformation.resources.world import allow, new_context
from tests.yard.cloudformation.stacks import Stacks
from tests.yard.conftest import RunningYard

# Its function calls the yard's own process: services/functions/test_functions.py.
ELSEWHERE = {"AWS::CloudFormation::CustomResource"}
MODULES = sorted({module for module, _ in registry.TYPES.values()})


@pytest.mark.parametrize("module", MODULES)
def test_the_registry_and_the_modules_list_the_same_types(module: str) -> None:
    listed = {kind for kind, (name, _) in registry.TYPES.items() if name == module}
    assert listed == set(import_module(f"{registry.PACKAGE}.{module}").PROVIDERS)


def test_every_emulated_type_is_tried_in_a_round_trip_and_none_is_recorded_too() -> None:
    assert set(CASES) == set(registry.TYPES) - ELSEWHERE
    assert not registry.recorded_types() & set(registry.TYPES)
    fidelities = registry.fidelities()
    assert fidelities["AWS::EC2::VPC"] is Fidelity.MOTO
    assert fidelities["AWS::FSx::DataRepositoryAssociation"] is Fidelity.RECORDED


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        ("AWS::GameLift::Fleet", "the yard does not emulate AWS::GameLift::Fleet"),
        ("AWS::EC2::Fleet", "AWS::EC2::LaunchTemplate"),
    ],
)
def test_a_type_that_is_not_emulated_is_refused_by_name(kind: str, says: str) -> None:
    with pytest.raises(ApiError, match="Template format error") as refused:
        registry.provider(kind)
    assert refused.value.code == "ValidationError"
    assert says in refused.value.message


def test_listing_the_types_loads_no_provider() -> None:
    program = (
        "import sys; from slipway.yard.cloudformation.resources.registry import fidelities; fidelities();"
        "print([name for name in sys.modules if name.split('.')[0] in ('boto3', 'botocore', 'moto')"
        " or name == 'slipway.yard.services.iam.resources'])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# Recorded types are known to CloudFormation, and have all that a stack reads.
KINDS = sorted(registry.recorded_types())


@pytest.mark.parametrize("kind", KINDS)
def test_a_recorded_type_has_an_id_and_every_attribute_until_it_goes(kind: str) -> None:
    assert schemas.is_known(kind)
    maker, context = registry.provider(kind), new_context("One")
    made = maker.create(context, {})
    wanted = {path.replace("/", ".") for path in schemas.read_only(kind) if "*" not in path}
    assert made.physical_id
    assert set(made.attributes) >= wanted
    assert maker.update(context, made, {}, {"Tags": []}).physical_id == made.physical_id
    assert maker.read(context, made, {}) == {"Tags": []}
    maker.delete(context, made, {})
    assert made.physical_id not in {record.physical_id for record in records(kind)}


def test_the_id_and_arn_of_a_recorded_type_are_those_that_other_types_take() -> None:
    def create(kind: str, **properties: Any) -> Resource:
        return registry.provider(f"AWS::{kind}").create(new_context("One"), properties)

    arn = create("SageMaker::StudioLifecycleConfig").attributes["StudioLifecycleConfigArn"]
    settings = {"DefaultUserSettings": {"CodeEditorAppSettings": {"LifecycleConfigArns": [arn]}}}
    problems = schemas.check("AWS::SageMaker::Domain", settings)
    assert not [problem for problem in problems if "LifecycleConfigArns" in problem]
    pool = create("Cognito::UserPool").physical_id
    domain = {"Domain": "train", "UserPoolId": pool}
    assert schemas.check("AWS::Cognito::UserPoolDomain", domain) == ()
    arn = "arn:aws:pcs:us-east-1:123456789012:cluster/pcs_1"
    source = create("Logs::DeliverySource", Name="logs", ResourceArn=arn)
    assert source.attributes["ResourceArns"] == [arn], "a plural lists what the template names"


PLACE = "us-east-1:123456789012"


@pytest.mark.parametrize(
    ("kind", "properties", "attribute", "form"),
    [
        ("DirectoryService::SimpleAD", {}, "", r"d-[0-9a-f]{10}"),
        ("DirectoryService::SimpleAD", {}, "DnsIpAddresses", r"\['10\.0\.0\.10', '10\.0\.1\.10'\]"),
        ("DynamoDB::Table", {"TableName": "t"}, "Arn", f"arn:aws:dynamodb:{PLACE}:table/t"),
        ("EKS::Cluster", {"Name": "train"}, "", "train"),
        ("EKS::Cluster", {"Name": "train"}, "Arn", f"arn:aws:eks:{PLACE}:cluster/train"),
        ("DynamoDB::Table", {"TableName": "t"}, "StreamArn", rf"arn:aws:dynamodb:{PLACE}:table/t/stream/.+"),
        ("EC2::Volume", {}, "VolumeId", r"vol-[0-9a-f]{17}"),
        ("EC2::VPCPeeringConnection", {}, "", r"pcx-[0-9a-f]{17}"),
        ("ECS::Cluster", {"ClusterName": "c"}, "Arn", f"arn:aws:ecs:{PLACE}:cluster/c"),
        ("ECS::TaskDefinition", {"Family": "f"}, "", f"arn:aws:ecs:{PLACE}:task-definition/f:1"),
        ("IAM::User", {"UserName": "u", "Path": "/a/"}, "Arn", "arn:aws:iam::123456789012:user/a/u"),
        ("IAM::AccessKey", {}, "", r"AKIA[0-9A-F]{16}"),
        ("IAM::AccessKey", {}, "SecretAccessKey", r"[\w-]{40}"),
        ("RDS::DBInstance", {"DBInstanceIdentifier": "Db"}, "", "db"),
        ("RDS::DBInstance", {}, "Endpoint.Address", r"[\w-]+\.\w{12}\.us-east-1\.rds\.amazonaws\.com"),
        ("RDS::DBInstance", {"Engine": "postgres"}, "Endpoint.Port", "5432"),
        ("RDS::DBCluster", {}, "ReadEndpoint.Address", r".+\.cluster-ro-\w+\.us-east-1\.rds\.amazonaws\.com"),
        ("RDS::DBSubnetGroup", {}, "DBSubnetGroupArn", f"arn:aws:rds:{PLACE}:subgrp:trial-one-.+"),
        ("SQS::Queue", {"QueueName": "q"}, "", "https://sqs.us-east-1.amazonaws.com/123456789012/q"),
        ("SQS::Queue", {"QueueName": "q"}, "Arn", f"arn:aws:sqs:{PLACE}:q"),
        ("SQS::Queue", {"FifoQueue": True}, "QueueName", r"trial-One-\w+\.fifo"),
        ("SageMaker::Domain", {"DomainName": "Research-Domain"}, "", r"d-[0-9a-f]{12}"),
        ("StepFunctions::StateMachine", {}, "Arn", f"arn:aws:states:{PLACE}:stateMachine:trial-One-.+"),
    ],
)
def test_an_id_and_an_attribute_look_as_aws_writes_them(
    kind: str, properties: dict[str, Any], attribute: str, form: str
) -> None:
    made = registry.provider(f"AWS::{kind}").create(new_context("One"), properties)
    found = made.attributes[attribute] if attribute else made.physical_id
    assert re.fullmatch(form, str(found))


def test_a_listener_and_its_rules_are_below_their_load_balancer() -> None:
    def create(kind: str, **properties: Any) -> Resource:
        return registry.provider(f"AWS::ElasticLoadBalancingV2::{kind}").create(new_context(kind), properties)

    balancer = create("LoadBalancer", Name="front", Type="network")
    listener = create("Listener", LoadBalancerArn=balancer.physical_id)
    rule = create("ListenerRule", ListenerArn=listener.physical_id)
    own = balancer.attributes["LoadBalancerFullName"]
    assert re.fullmatch(r"net/front/\w{16}", own)
    assert balancer.attributes["DNSName"].endswith(".us-east-1.elb.amazonaws.com")
    assert f":listener/{own}/" in listener.physical_id
    assert f":listener-rule/{listener.physical_id.partition(':listener/')[2]}/" in rule.physical_id


def typed(kind: str, **properties: Any) -> dict[str, Any]:
    return {"Type": f"AWS::{kind}", "Properties": properties}


def arn(name: str, attribute: str = "Arn") -> dict[str, Any]:
    return {"Fn::GetAtt": [name, attribute]}


RESTS_ON_RECORDS = {
    "Vpc": typed("EC2::VPC", CidrBlock="10.40.0.0/16"),
    "Subnet": typed("EC2::Subnet", VpcId={"Ref": "Vpc"}, CidrBlock="10.40.1.0/24"),
    "Table": typed("EC2::RouteTable", VpcId={"Ref": "Vpc"}),
    "Peering": typed("EC2::VPCPeeringConnection", VpcId={"Ref": "Vpc"}, PeerVpcId="vpc-12345678"),
    "Route": typed(
        "EC2::Route",
        RouteTableId={"Ref": "Table"},
        DestinationCidrBlock="10.99.0.0/16",
        VpcPeeringConnectionId={"Ref": "Peering"},
    ),
    "Outwards": typed("EC2::EgressOnlyInternetGateway", VpcId={"Ref": "Vpc"}),
    "SixthRoute": typed(
        "EC2::Route",
        RouteTableId={"Ref": "Table"},
        DestinationIpv6CidrBlock="::/0",
        EgressOnlyInternetGatewayId={"Ref": "Outwards"},
    ),
    "User": typed("IAM::User"),
    "Group": typed("IAM::Group"),
    "Policy": typed(
        "IAM::Policy",
        PolicyName="list",
        PolicyDocument=allow("s3:ListAllMyBuckets"),
        Users=[{"Ref": "User"}],
        Groups=[{"Ref": "Group"}],
    ),
    "Managed": typed("IAM::ManagedPolicy", PolicyDocument=allow("s3:*"), Users=[{"Ref": "User"}]),
    "Targets": typed("ElasticLoadBalancingV2::TargetGroup", Port=80, Protocol="HTTP", VpcId={"Ref": "Vpc"}),
    "Launch": typed(
        "EC2::LaunchTemplate", LaunchTemplateData={"ImageId": "ami-12c6146b", "InstanceType": "c6i.large"}
    ),
    "Nodes": typed(
        "AutoScaling::AutoScalingGroup",
        MinSize="0",
        MaxSize="1",
        VPCZoneIdentifier=[{"Ref": "Subnet"}],
        LaunchTemplate={"LaunchTemplateId": {"Ref": "Launch"}, "Version": "1"},
        TargetGroupARNs=[{"Ref": "Targets"}],
    ),
    "Source": typed("RDS::DBInstance", DBInstanceClass="db.t3.micro", Engine="mysql", AllocatedStorage="20"),
    "Replica": typed(
        "RDS::DBInstance", DBInstanceClass="db.t3.micro", SourceDBInstanceIdentifier={"Ref": "Source"}
    ),
    "Address": typed("SSM::Parameter", Type="String", Value=arn("Source", "Endpoint.Address")),
    "Queue": typed("SQS::Queue"),
    "Topic": typed("SNS::Topic"),
    "Told": typed("SNS::Subscription", TopicArn={"Ref": "Topic"}, Protocol="sqs", Endpoint=arn("Queue")),
    "Bucket": typed(
        "S3::Bucket",
        NotificationConfiguration={
            "QueueConfigurations": [{"Event": "s3:ObjectCreated:*", "Queue": arn("Queue")}]
        },
    ),
    "Rule": typed(
        "Events::Rule",
        EventPattern={"source": ["own"]},
        Targets=[{"Id": "queue", "Arn": arn("Queue")}, {"Id": "topic", "Arn": {"Ref": "Topic"}}],
    ),
}


def test_what_rests_on_recorded_resources_deploys_works_and_goes(yard: RunningYard) -> None:
    stacks = Stacks(yard)
    made = stacks.create("rests", RESTS_ON_RECORDS)
    sent = yard.client("sns").publish(TopicArn=made["Topic"], Message="nobody reads it")
    assert sent["MessageId"]
    yard.client("s3").put_object(Bucket=made["Bucket"], Key="a", Body=b"1")
    yard.client("s3").delete_object(Bucket=made["Bucket"], Key="a")
    entry = {"Source": "own", "DetailType": "a", "Detail": "{}"}
    assert yard.client("events").put_events(Entries=[entry])["FailedEntryCount"] == 0
    stacks.update("rests", {**RESTS_ON_RECORDS, "User": typed("IAM::User", Path="/")})
    stacks.delete("rests")


def test_a_wrong_property_of_a_recorded_type_is_refused(yard: RunningYard) -> None:
    body = json.dumps({"Resources": {"Queue": typed("SQS::Queue", Sparkle=True)}})
    refused = refusal(yard.client("cloudformation").create_stack, StackName="wrong", TemplateBody=body)
    assert "Extraneous key [Sparkle] is not permitted" in refused["Message"]
