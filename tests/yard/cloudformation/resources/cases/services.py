"""Services of which the yard keeps the resources, and runs nothing: queues, tables, balancers, databases."""

from __future__ import annotations

import json

from tests.yard.cloudformation.resources.cases.case import OTHER_TAGS, TAGS, Case, Cases
from tests.yard.cloudformation.resources.world import World, allow

CONTAINER = {"Name": "train", "Image": "train:1", "Memory": 512, "Essential": True}
MACHINE = {"StartAt": "End", "States": {"End": {"Type": "Succeed"}}}
INLINE = {"ZipFile": "def handler(event, context): return event"}
CODE = {"Runtime": "python3.12", "Handler": "index.handler"}


def queue(_world: World) -> Case:
    return Case(properties={"VisibilityTimeout": 60, "Tags": TAGS}, change={"VisibilityTimeout": 90})


def queue_policy(world: World) -> Case:
    url = world.make("AWS::SQS::Queue").id
    policy = allow("sqs:SendMessage")
    policy["Statement"][0]["Principal"] = "*"
    return Case(properties={"Queues": [url], "PolicyDocument": policy})


def table(_world: World) -> Case:
    return Case(
        properties={
            "AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "S"}],
            "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}],
            "BillingMode": "PAY_PER_REQUEST",
            "SSESpecification": {"SSEEnabled": True},
            "StreamSpecification": {"StreamViewType": "NEW_IMAGE"},
            "PointInTimeRecoverySpecification": {"PointInTimeRecoveryEnabled": True},
            "Tags": TAGS,
        },
        change={"DeletionProtectionEnabled": False, "BillingMode": "PAY_PER_REQUEST", "Tags": OTHER_TAGS},
    )


def load_balancer(world: World) -> Case:
    return Case(
        properties={
            "Type": "application",
            "Subnets": [world.subnet(), world.other_subnet()],
            "SecurityGroups": [world.security_group()],
            "LoadBalancerAttributes": [{"Key": "idle_timeout.timeout_seconds", "Value": "50"}],
            "Tags": TAGS,
        },
        change={
            "SecurityGroups": [
                world.make("AWS::EC2::SecurityGroup", GroupDescription="b", VpcId=world.vpc()).id
            ]
        },
    )


def target_group(world: World) -> Case:
    return Case(
        properties={
            "Port": 80,
            "Protocol": "HTTP",
            "VpcId": world.vpc(),
            "HealthCheckPath": "/a",
            "Tags": TAGS,
        },
        change={"HealthCheckPath": "/b"},
    )


def listener(world: World) -> Case:
    actions = [{"Type": "forward", "TargetGroupArn": world.target_group()}]
    balancer = world.load_balancer()
    return Case(
        properties={"LoadBalancerArn": balancer, "Port": 80, "Protocol": "HTTP", "DefaultActions": actions},
        change={"Port": 81},
    )


def listener_rule(world: World) -> Case:
    actions = [{"Type": "forward", "TargetGroupArn": world.target_group()}]
    listening = world.make(
        "AWS::ElasticLoadBalancingV2::Listener",
        LoadBalancerArn=world.load_balancer(),
        Port=8080,
        Protocol="HTTP",
        DefaultActions=actions,
    )
    paths = [{"Field": "path-pattern", "Values": ["/a"]}]
    return Case(
        properties={"ListenerArn": listening.id, "Priority": 1, "Actions": actions, "Conditions": paths},
        change={"Conditions": [{"Field": "path-pattern", "Values": ["/b"]}]},
    )


def cluster(_world: World) -> Case:
    return Case(
        properties={"ClusterSettings": [{"Name": "containerInsights", "Value": "disabled"}], "Tags": TAGS},
        change={"ClusterSettings": [{"Name": "containerInsights", "Value": "enabled"}]},
    )


def task_definition(_world: World) -> Case:
    return Case(properties={"ContainerDefinitions": [CONTAINER], "Tags": TAGS})


def database(_world: World) -> Case:
    return Case(
        properties={
            "Engine": "mysql",
            "DBInstanceClass": "db.t3.micro",
            "AllocatedStorage": "20",
            "MasterUsername": "admin",
            "MasterUserPassword": "not-a-secret-1",
            "Tags": TAGS,
        },
        change={"AllocatedStorage": "40"},
    )


def database_cluster(_world: World) -> Case:
    return Case(
        properties={
            "Engine": "aurora-mysql",
            "MasterUsername": "admin",
            "MasterUserPassword": "not-a-secret-1",
            "Tags": TAGS,
        },
        change={"Tags": OTHER_TAGS},
    )


def subnet_group(world: World) -> Case:
    return Case(
        properties={
            "DBSubnetGroupDescription": "trial",
            "SubnetIds": [world.subnet(), world.other_subnet()],
            "Tags": TAGS,
        },
        change={"SubnetIds": [world.subnet()]},
    )


def parameter_group(_world: World) -> Case:
    return Case(
        properties={
            "Family": "mysql8.0",
            "Description": "trial",
            "Parameters": {"max_connections": 20},
            "Tags": TAGS,
        },
        change={"Parameters": {"max_connections": 40}},
    )


def event_bus(_world: World) -> Case:
    return Case(properties={"Name": "trial", "Tags": TAGS}, change={"Tags": OTHER_TAGS})


def state_machine(world: World) -> Case:
    role = world.role().attribute("Arn")
    return Case(
        properties={"Definition": MACHINE, "RoleArn": role, "Tags": TAGS},
        change={"Definition": {**MACHINE, "Comment": "another"}},
    )


def function(world: World) -> Case:
    return Case(
        properties={**CODE, "Code": INLINE, "Role": world.role().attribute("Arn"), "Tags": TAGS},
        change={"MemorySize": 256},
    )


def permission(world: World) -> Case:
    made = world.make("AWS::Lambda::Function", **CODE, Code=INLINE, Role=world.role().attribute("Arn"))
    return Case(
        properties={
            "FunctionName": made.id,
            "Action": "lambda:InvokeFunction",
            "Principal": "events.amazonaws.com",
        }
    )


def layer(world: World) -> Case:
    world.client("s3").put_object(Bucket=world.bucket(), Key="layer.zip", Body=b"PK\x05\x06" + bytes(18))
    world.objects.append((world.bucket(), "layer.zip"))
    return Case(properties={"Content": {"S3Bucket": world.bucket(), "S3Key": "layer.zip"}})


def nested(world: World) -> Case:
    template = {"Resources": {"Topic": {"Type": "AWS::SNS::Topic"}}}
    world.client("s3").put_object(Bucket=world.bucket(), Key="child.json", Body=json.dumps(template).encode())
    world.objects.append((world.bucket(), "child.json"))
    url = f"https://{world.bucket()}.s3.{world.region}.amazonaws.com/child.json"
    return Case(properties={"TemplateURL": url}, change={"Tags": TAGS})


def launch_configuration(_world: World) -> Case:
    return Case(
        properties={"ImageId": "ami-12c6146b", "InstanceType": "c6i.large", "InstanceMonitoring": False}
    )


def microsoft_ad(world: World) -> Case:
    place = {"VpcId": world.vpc(), "SubnetIds": [world.subnet(), world.other_subnet()]}
    given = {"Name": "corp.example.com", "Password": "Passw0rd-1", "Edition": "Standard"}
    return Case(properties={**given, "VpcSettings": place, "CreateAlias": True})


def simple_ad(world: World) -> Case:
    place = {"VpcId": world.vpc(), "SubnetIds": [world.subnet(), world.other_subnet()]}
    given = {"Name": "lab.example.com", "Password": "Passw0rd-1", "Size": "Small", "ShortName": "LAB"}
    return Case(properties={**given, "VpcSettings": place})


CASES: Cases = {
    "AWS::DirectoryService::MicrosoftAD": microsoft_ad,
    "AWS::DirectoryService::SimpleAD": simple_ad,
    "AWS::AutoScaling::LaunchConfiguration": launch_configuration,
    "AWS::CloudFormation::Stack": nested,
    "AWS::SQS::Queue": queue,
    "AWS::SQS::QueuePolicy": queue_policy,
    "AWS::DynamoDB::Table": table,
    "AWS::ElasticLoadBalancingV2::LoadBalancer": load_balancer,
    "AWS::ElasticLoadBalancingV2::TargetGroup": target_group,
    "AWS::ElasticLoadBalancingV2::Listener": listener,
    "AWS::ElasticLoadBalancingV2::ListenerRule": listener_rule,
    "AWS::ECS::Cluster": cluster,
    "AWS::ECS::TaskDefinition": task_definition,
    "AWS::RDS::DBInstance": database,
    "AWS::RDS::DBCluster": database_cluster,
    "AWS::RDS::DBParameterGroup": parameter_group,
    "AWS::RDS::DBSubnetGroup": subnet_group,
    "AWS::Events::EventBus": event_bus,
    "AWS::StepFunctions::StateMachine": state_machine,
    "AWS::Lambda::Function": function,
    "AWS::Lambda::Permission": permission,
    "AWS::Lambda::LayerVersion": layer,
}
