"""A node without a way out reaches the services that have an endpoint in its VPC, and no other."""

from __future__ import annotations

import pytest

from tests.yard.services.batch.conftest import Cluster, batch_yard, cluster, tier

__all__ = ["batch_yard", "cluster", "tier"]

ASK = """
import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
for name, operation in (("s3", "list_buckets"), ("sts", "get_caller_identity"), ("sqs", "list_queues")):
    once = Config(retries={"total_max_attempts": 1})
    nobody = {"aws_access_key_id": "AKIANOBODY", "aws_secret_access_key": "-"}  # the job has no role
    client = boto3.client(name, config=once, **nobody)
    try:
        getattr(client, operation)()
        print(name, "answers", flush=True)
    except ClientError:
        print(name, "answers", flush=True)
    except BotoCoreError:
        print(name, "is out of reach", flush=True)
"""


@pytest.fixture
def isolated(cluster: Cluster) -> Cluster:
    """A cluster whose subnet has S3 in its route table, STS by an interface, and no way out."""
    ec2 = cluster.yard.client("ec2")
    (environment,) = cluster.batch.describe_compute_environments()["computeEnvironments"]
    (subnet,) = environment["computeResources"]["subnets"]
    vpc = ec2.describe_subnets(SubnetIds=[subnet])["Subnets"][0]["VpcId"]
    of_vpc = [{"Name": "vpc-id", "Values": [vpc]}]
    (table,) = ec2.describe_route_tables(Filters=of_vpc)["RouteTables"]
    services = "com.amazonaws.us-east-1."
    ec2.create_vpc_endpoint(VpcId=vpc, ServiceName=f"{services}s3", RouteTableIds=[table["RouteTableId"]])
    ec2.create_vpc_endpoint(
        VpcId=vpc, ServiceName=f"{services}sts", VpcEndpointType="Interface", SubnetIds=[subnet]
    )
    return cluster


def said(cluster: Cluster) -> list[str]:
    job = cluster.submit_single(ASK, definition=cluster.define_single())
    assert cluster.ended(job)["status"] == "SUCCEEDED", cluster.lines(job, None)
    return cluster.lines(job, None)


def test_a_job_in_an_isolated_subnet_reaches_what_has_an_endpoint(isolated: Cluster) -> None:
    assert said(isolated) == ["s3 answers", "sts answers", "sqs is out of reach"]


def test_a_route_out_leads_to_all_services(isolated: Cluster) -> None:
    ec2 = isolated.yard.client("ec2")
    (endpoint, *_) = ec2.describe_vpc_endpoints()["VpcEndpoints"]
    vpc = endpoint["VpcId"]
    gateway = ec2.create_internet_gateway()["InternetGateway"]["InternetGatewayId"]
    ec2.attach_internet_gateway(InternetGatewayId=gateway, VpcId=vpc)
    (table,) = ec2.describe_route_tables(Filters=[{"Name": "vpc-id", "Values": [vpc]}])["RouteTables"]
    ec2.create_route(RouteTableId=table["RouteTableId"], DestinationCidrBlock="0.0.0.0/0", GatewayId=gateway)
    assert said(isolated) == ["s3 answers", "sts answers", "sqs answers"]
