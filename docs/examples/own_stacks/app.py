"""Adds a cluster of Slipway to a VPC and a bucket of your own: `cdk deploy --all`."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_s3 as s3
from clusters import CLUSTERS

from slipway.infra import add_cluster

app = cdk.App()
own = cdk.Stack(app, "own", env=cdk.Environment(region="us-east-1"))
zones = ["us-east-1a", "us-east-1b"]
vpc = ec2.Vpc(own, "Vpc", availability_zones=zones, nat_gateways=1, restrict_default_security_group=False)
vpc.add_gateway_endpoint("S3", service=ec2.GatewayVpcEndpointAwsService.S3)
bucket = s3.Bucket(own, "Results", enforce_ssl=True, encryption=s3.BucketEncryption.KMS)
for cluster in CLUSTERS:
    added = add_cluster(app, cluster, vpc=vpc, bucket=bucket)
    cdk.CfnOutput(added.stacks[-1], "JobRole", value=added.job_role.role_arn)
app.synth()
