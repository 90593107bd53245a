"""Nodes reach the yard through their VPC's endpoints or a way out; web pages do not reach it."""

from __future__ import annotations

import json
from urllib.parse import urlsplit

import pytest
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from slipway.yard.endpoint import ACCESS_KEY_ID
from tests.yard.asking import send
from tests.yard.conftest import REGION, RunningYard
from tests.yard.gateway.test_signatures import FORM, WHO, signed
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
    """Make a cluster whose subnet has S3 in its route table, STS by an interface, and no way out."""
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


# No web page can use the yard, from another origin or by a name that leads here.


def evil(**headers: str) -> dict[str, str]:
    return {name.replace("_", "-"): value for name, value in headers.items()}


PAGES = {
    "a foreign origin": evil(Origin="https://evil.example"),
    "a sandboxed page": evil(Origin="null"),
    "a page of another port of this machine": evil(Origin="http://127.0.0.1:3000"),
    "a link on a foreign page": evil(Sec_Fetch_Site="cross-site"),
    "a page of another port, without an origin": evil(Sec_Fetch_Site="same-site"),
    "a name that leads here": evil(Host="evil.example:5566"),
    "a name that begins as ours": evil(Host="127.0.0.1.evil.example"),
    "a name that ends like ours": evil(Host="evillocalhost"),
    "no name": evil(Host=""),
}


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("path", ["/", "/bucket/key", "/v1/submitjob", "/_yard/reset", "/_yard/health"])
def test_whatever_a_web_page_sends_is_refused(yard: RunningYard, page: str, path: str) -> None:
    status, said = send("POST", yard.endpoint + path, b"", {"Content-Type": "text/plain", **PAGES[page]})
    assert (status, b"the yard refuses this request" in said) == (403, True)


@pytest.mark.parametrize("page", PAGES)
def test_even_what_was_signed_is_refused_from_a_web_page(yard: RunningYard, page: str) -> None:
    headers = {**FORM, **PAGES[page]}
    assert send("POST", f"{yard.endpoint}/", WHO, signed(yard, headers=headers))[0] == 403


def test_the_yard_answers_by_each_of_its_own_names(yard: RunningYard) -> None:
    port = urlsplit(yard.endpoint).port
    yard.client("s3").create_bucket(Bucket="bucket")
    for name in ("127.0.0.1", "localhost", "[::1]"):
        headers = signed(yard, headers={**FORM, "Host": f"{name}:{port}", "Origin": f"http://{name}:{port}"})
        assert send("POST", f"{yard.endpoint}/", WHO, headers)[0] == 200, name
    host = {"Host": f"bucket.localhost:{port}"}
    request = AWSRequest(method="GET", url=f"{yard.endpoint}/?list-type=2", headers=host)
    S3SigV4Auth(Credentials(ACCESS_KEY_ID, yard.secret), "s3", REGION).add_auth(request)
    assert send("GET", f"{yard.endpoint}/?list-type=2", headers=dict(request.headers))[0] == 200


def test_a_page_cannot_register_a_job_with_a_form(yard: RunningYard) -> None:
    """Try what was once possible: the scope in the query, and a body that needs no preflight."""
    scope = f"X-Amz-Credential={ACCESS_KEY_ID}/20260101/us-east-1/batch/aws4_request"
    job = json.dumps({"jobDefinitionName": "evil", "type": "container"}).encode()
    plain = {"Content-Type": "text/plain"}
    url = f"{yard.endpoint}/v1/registerjobdefinition?{scope}"
    assert send("POST", url, job, plain)[0] == 403
    assert send("POST", url, job, {**plain, "Origin": "https://evil.example"})[0] == 403
    assert yard.client("batch").describe_job_definitions()["jobDefinitions"] == []
