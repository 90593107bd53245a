"""An app as written after `cdk init`: a VPC, a bucket, EFS, logs, and the CDK's Batch constructs."""

from __future__ import annotations

from aws_cdk import App, CfnOutput, NestedStack, RemovalPolicy, Size, Stack
from aws_cdk import aws_batch as batch
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_ecs as ecs
from aws_cdk import aws_efs as efs
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from aws_cdk import aws_s3 as s3

# `cdk init` writes this flag: the default security group of every VPC is emptied by a custom resource.
# After the command line's context, because the cdk.json of this checkout leaves it out.
app = App(post_cli_context={"@aws-cdk/aws-ec2:restrictDefaultSecurityGroup": True})
stack = Stack(app, "fresh")
vpc = ec2.Vpc(stack, "Vpc", max_azs=2, nat_gateways=1)
vpc.add_gateway_endpoint("S3", service=ec2.GatewayVpcEndpointAwsService.S3)
bucket = s3.Bucket(stack, "Bucket", removal_policy=RemovalPolicy.DESTROY, auto_delete_objects=True)
efs.FileSystem(stack, "Files", vpc=vpc, removal_policy=RemovalPolicy.DESTROY)
logs.LogRetention(
    stack,
    "Kept",
    log_group_name="/fresh/kept",
    retention=logs.RetentionDays.ONE_WEEK,
    removal_policy=RemovalPolicy.DESTROY,
)
environment = batch.ManagedEc2EcsComputeEnvironment(stack, "Machines", vpc=vpc)
queue = batch.JobQueue(stack, "Queue")
queue.add_compute_environment(environment, 1)
container = batch.EcsEc2ContainerDefinition(
    stack,
    "Container",
    image=ecs.ContainerImage.from_registry("train"),
    cpu=1,
    memory=Size.mebibytes(256),
)
batch.EcsJobDefinition(stack, "Job", container=container)
nested = NestedStack(stack, "Access")
role = iam.Role(nested, "Reader", assumed_by=iam.ServicePrincipal("ec2.amazonaws.com"))
bucket.grant_read(role)
CfnOutput(stack, "BucketName", value=bucket.bucket_name)
CfnOutput(stack, "GroupName", value=vpc.vpc_default_security_group)
CfnOutput(stack, "RoleName", value=role.role_name)
app.synth()
