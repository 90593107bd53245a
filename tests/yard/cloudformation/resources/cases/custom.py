"""Cases of the custom resources that the CDK's own constructs write."""

from __future__ import annotations

import io
import zipfile

from tests.yard.cloudformation.resources.cases.case import (
    Case,
    Cases,
    case,
)
from tests.yard.cloudformation.resources.world import World

TOKEN = "arn:aws:lambda:us-east-1:123456789012:function:provider"
EMPTIES = [{"Key": "aws-cdk:auto-delete-objects", "Value": "true"}]


def restricted_group(world: World) -> Case:
    found = world.client("ec2").describe_security_groups(
        Filters=[{"Name": "vpc-id", "Values": [world.vpc()]}]
    )
    (group,) = [one["GroupId"] for one in found["SecurityGroups"] if one["GroupName"] == "default"]
    return case(ServiceToken=TOKEN, DefaultSecurityGroupId=group, Account="123456789012")


def emptied_bucket(world: World) -> Case:
    bucket = world.make("AWS::S3::Bucket", Tags=EMPTIES).id
    world.client("s3").put_object(Bucket=bucket, Key="result", Body=b"1")
    return case(ServiceToken=TOKEN, BucketName=bucket)


def notifications(world: World) -> Case:
    topics = [{"TopicArn": world.topic(), "Events": ["s3:ObjectCreated:*"]}]
    return case(
        ServiceToken=TOKEN,
        BucketName=world.bucket(),
        NotificationConfiguration={"TopicConfigurations": topics},
        Managed="true",
    )


def bucket_deployment(world: World) -> Case:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("config/cluster.json", '{"name": "<marker>"}')
    world.client("s3").put_object(Bucket=world.bucket(), Key="asset.zip", Body=packed.getvalue())
    world.objects.append((world.bucket(), "asset.zip"))
    return case(
        ServiceToken=TOKEN,
        SourceBucketNames=[world.bucket()],
        SourceObjectKeys=["asset.zip"],
        SourceMarkers=[{"<marker>": 'a "dl1"'}],
        SourceMarkersConfig=[{"jsonEscape": "true"}],
        WaitForDistributionInvalidation=True,
        DestinationBucketName=world.bucket(),
        DestinationBucketKeyPrefix="here",
        RetainOnDelete="false",
    ).changed(SourceMarkers=[{"<marker>": "p5"}])


def parallel_cluster(world: World) -> Case:
    queue = {"Name": "hpc", "Networking": {"SubnetIds": [world.subnet()]}}
    head = {"InstanceType": "c6i.large", "Networking": {"SubnetId": world.subnet()}}
    cluster = {"Image": {"Os": "alinux2023"}, "HeadNode": head}
    scheduling = {"Scheduler": "slurm", "SlurmQueues": [queue]}
    larger = {**cluster, "HeadNode": {**head, "InstanceType": "c6i.xlarge"}, "Scheduling": scheduling}
    given = {"ClusterName": "trial", "ClusterConfiguration": {**cluster, "Scheduling": scheduling}}
    return case(ServiceToken=TOKEN, **given).changed(ClusterConfiguration=larger)


CASES: Cases = {
    "Custom::VpcRestrictDefaultSG": restricted_group,
    "Custom::S3AutoDeleteObjects": emptied_bucket,
    "Custom::LogRetention": lambda _world: case(
        ServiceToken=TOKEN, LogGroupName="/trial/kept", RetentionInDays="7", RemovalPolicy="destroy"
    ).changed(RetentionInDays="14"),
    "Custom::S3BucketNotifications": notifications,
    "Custom::CDKBucketDeployment": bucket_deployment,
    "Custom::AWSCDKOpenIdConnectProvider": lambda _world: case(
        ServiceToken=TOKEN,
        Url="https://tokens.example.com",
        ClientIDList=["sts.amazonaws.com"],
        RejectUnauthorized=False,
        CodeHash="c0",
    ).changed(ClientIDList=["other"], ThumbprintList=["a" * 40]),
    "Custom::PclusterCluster": parallel_cluster,
}
