"""One realistic resource of every type, and one change to it that must not replace it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.yard.resources.world import TRUST, World, allow


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    properties: Mapping[str, Any]
    change: Mapping[str, Any] = field(default_factory=dict)  # empty: nothing of it can change in place


TAGS = [{"Key": "project", "Value": "slipway"}]
OTHER_TAGS = [{"Key": "project", "Value": "other"}, {"Key": "owner", "Value": "you"}]
TAG_MAP = {"project": "slipway"}
OTHER_TAG_MAP = {"project": "other", "owner": "you"}


def vpc(_world: World) -> Case:
    return Case(
        properties={
            "CidrBlock": "10.30.0.0/16",
            "EnableDnsSupport": True,
            "EnableDnsHostnames": True,
            "InstanceTenancy": "default",
            "Tags": TAGS,
        },
        change={"Tags": OTHER_TAGS, "EnableDnsHostnames": False},
    )


def subnet(world: World) -> Case:
    return Case(
        properties={
            "VpcId": world.vpc(),
            "CidrBlock": "10.20.9.0/24",
            "AvailabilityZone": "us-east-1b",
            "MapPublicIpOnLaunch": False,
            "Tags": TAGS,
        },
        change={"MapPublicIpOnLaunch": True},
    )


def route_table(world: World) -> Case:
    return Case(properties={"VpcId": world.vpc(), "Tags": TAGS}, change={"Tags": OTHER_TAGS})


def route(world: World) -> Case:
    gateway = world.internet_gateway()
    nat = world.make("AWS::EC2::NatGateway", SubnetId=world.subnet(), ConnectivityType="private", Tags=TAGS)
    return Case(
        properties={
            "RouteTableId": world.route_table(),
            "DestinationCidrBlock": "0.0.0.0/0",
            "GatewayId": gateway,
        },
        change={"GatewayId": None, "NatGatewayId": nat.id},
    )


def association(world: World) -> Case:
    return Case(properties={"RouteTableId": world.route_table(), "SubnetId": world.subnet()})


def internet_gateway(_world: World) -> Case:
    return Case(properties={"Tags": TAGS}, change={"Tags": OTHER_TAGS})


def gateway_attachment(world: World) -> Case:
    first, second = (world.make("AWS::EC2::InternetGateway").id for _ in range(2))
    return Case(
        properties={"VpcId": world.vpc(), "InternetGatewayId": first}, change={"InternetGatewayId": second}
    )


def elastic_ip(_world: World) -> Case:
    return Case(properties={"Domain": "vpc", "Tags": TAGS}, change={"Tags": OTHER_TAGS})


def nat_gateway(world: World) -> Case:
    address = world.make("AWS::EC2::EIP", Domain="vpc")
    return Case(
        properties={
            "AllocationId": address.attribute("AllocationId"),
            "SubnetId": world.subnet(),
            "Tags": TAGS,
        },
        change={"Tags": OTHER_TAGS},
    )


def endpoint(world: World) -> Case:
    return Case(
        properties={
            "VpcId": world.vpc(),
            "ServiceName": "com.amazonaws.us-east-1.ecr.api",
            "VpcEndpointType": "Interface",
            "PrivateDnsEnabled": True,
            "SecurityGroupIds": [world.security_group()],
            "SubnetIds": [world.subnet()],
        },
        change={"PolicyDocument": allow("ecr:*")},
    )


def flow_log(world: World) -> Case:
    return Case(
        properties={
            "ResourceId": world.vpc(),
            "ResourceType": "VPC",
            "TrafficType": "ALL",
            "LogDestinationType": "cloud-watch-logs",
            "LogGroupName": world.log_group(),
            "DeliverLogsPermissionArn": world.role().attribute("Arn"),
            "Tags": TAGS,
        },
        change={"Tags": OTHER_TAGS},
    )


def security_group(world: World) -> Case:
    return Case(
        properties={
            "GroupDescription": "nodes of the cluster",
            "VpcId": world.vpc(),
            "SecurityGroupEgress": [{"IpProtocol": "-1", "CidrIp": "0.0.0.0/0", "Description": "all"}],
            "SecurityGroupIngress": [
                {"IpProtocol": "tcp", "FromPort": 22, "ToPort": 22, "CidrIp": "10.0.0.0/8"},
                {"IpProtocol": "tcp", "FromPort": 2049, "ToPort": 2049, "CidrIp": "10.20.0.0/16"},
            ],
            "Tags": TAGS,
        },
        change={
            "SecurityGroupIngress": [
                {"IpProtocol": "tcp", "FromPort": 988, "ToPort": 1023, "CidrIp": "10.20.0.0/16"}
            ]
        },
    )


def ingress(world: World) -> Case:
    group = world.security_group()
    return Case(
        properties={
            "GroupId": group,
            "IpProtocol": "-1",
            "SourceSecurityGroupId": group,
            "Description": "EFA",
        },
        change={"Description": "EFA, in"},
    )


def egress(world: World) -> Case:
    group = world.security_group()
    return Case(
        properties={
            "GroupId": group,
            "IpProtocol": "-1",
            "DestinationSecurityGroupId": group,
            "Description": "EFA",
        },
        change={"Description": "EFA, out"},
    )


def launch_template(world: World) -> Case:
    interfaces = [
        {
            "DeviceIndex": 0 if card == 0 else 1,
            "NetworkCardIndex": card,
            "InterfaceType": "efa",
            "Groups": [world.security_group()],
            "DeleteOnTermination": True,
        }
        for card in range(4)
    ]
    data = {
        "InstanceType": "dl1.24xlarge",
        "UserData": "TUlNRS1WZXJzaW9uOiAxLjA=",
        "MetadataOptions": {"HttpTokens": "required", "HttpPutResponseHopLimit": 1},
        "NetworkInterfaces": interfaces,
    }
    return Case(
        properties={
            "LaunchTemplateData": data,
            "TagSpecifications": [{"ResourceType": "launch-template", "Tags": TAGS}],
        },
        change={"LaunchTemplateData": {**data, "UserData": "b3RoZXI="}},
    )


def placement_group(_world: World) -> Case:
    return Case(properties={"Strategy": "cluster", "Tags": TAGS})


def instance(world: World) -> Case:
    return Case(
        properties={
            "ImageId": "ami-12c6146b",
            "InstanceType": "c6i.large",
            "SubnetId": world.subnet(),
            "SecurityGroupIds": [world.security_group()],
            "IamInstanceProfile": world.instance_profile().id,
            "Tags": TAGS,
        },
        change={"Tags": OTHER_TAGS},
    )


def scaling_group(world: World) -> Case:
    """Of no instances: what one launches is tried elsewhere."""
    return Case(
        properties={
            "MinSize": "0",
            "MaxSize": "4",
            "DesiredCapacity": "0",
            "VPCZoneIdentifier": [world.subnet()],
            "LaunchTemplate": {"LaunchTemplateId": world.launch_template().id, "Version": "1"},
            "PlacementGroup": world.make("AWS::EC2::PlacementGroup", Strategy="cluster").id,
            "HealthCheckType": "EC2",
            "HealthCheckGracePeriod": 0,
            "TerminationPolicies": ["NewestInstance"],
            "MetricsCollection": [{"Granularity": "1Minute"}],
            "Tags": [{"Key": "slipway:cluster", "Value": "c6i", "PropagateAtLaunch": True}],
        },
        change={
            "MaxSize": "6",
            "Tags": [{"Key": "owner", "Value": "you", "PropagateAtLaunch": False}],
        },
    )


def scheduled_action(world: World) -> Case:
    return Case(
        properties={
            "AutoScalingGroupName": world.scaling_group(),
            "Recurrence": "0 20 * * *",
            "MinSize": 0,
            "DesiredCapacity": 0,
        },
        change={"Recurrence": "0 21 * * *"},
    )


def scaling_policy(world: World) -> Case:
    return Case(
        properties={
            "AutoScalingGroupName": world.scaling_group(),
            "PolicyType": "SimpleScaling",
            "AdjustmentType": "ExactCapacity",
            "ScalingAdjustment": 0,
        },
        change={"ScalingAdjustment": 1},
    )


def lifecycle_hook(world: World) -> Case:
    return Case(
        properties={
            "AutoScalingGroupName": world.scaling_group(),
            "LifecycleTransition": "autoscaling:EC2_INSTANCE_TERMINATING",
            "HeartbeatTimeout": 120,
            "DefaultResult": "CONTINUE",
        },
        change={"HeartbeatTimeout": 240},
    )


def role(_world: World) -> Case:
    return Case(
        properties={
            "AssumeRolePolicyDocument": TRUST,
            "Description": "runs the nodes",
            "ManagedPolicyArns": ["arn:aws:iam::aws:policy/AmazonSSMManagedInstanceCore"],
            "Policies": [{"PolicyName": "data", "PolicyDocument": allow("s3:GetObject")}],
            "Tags": TAGS,
        },
        change={
            "Policies": [{"PolicyName": "data", "PolicyDocument": allow("s3:PutObject")}],
            "ManagedPolicyArns": ["arn:aws:iam::aws:policy/CloudWatchAgentServerPolicy"],
            "Description": "runs the nodes of dl1",
        },
    )


def policy(world: World) -> Case:
    return Case(
        properties={
            "PolicyName": "logs",
            "PolicyDocument": allow("logs:PutLogEvents"),
            "Roles": [world.role().id],
        },
        change={"PolicyDocument": allow("logs:*")},
    )


def managed_policy(world: World) -> Case:
    return Case(
        properties={
            "Description": "boundary",
            "PolicyDocument": allow("s3:GetObject"),
            "Roles": [world.role().id],
        },
        change={"PolicyDocument": allow("s3:*")},
    )


def instance_profile(world: World) -> Case:
    other = world.make("AWS::IAM::Role", AssumeRolePolicyDocument=TRUST)
    return Case(properties={"Roles": [world.role().id]}, change={"Roles": [other.id]})


def service_linked_role(_world: World) -> Case:
    return Case(
        properties={"AWSServiceName": "fsx.amazonaws.com", "Description": "for FSx"},
        change={"Description": "for FSx for Lustre"},
    )


def bucket(world: World) -> Case:
    key = world.key().attribute("Arn")
    return Case(
        properties={
            "BucketEncryption": {
                "ServerSideEncryptionConfiguration": [
                    {
                        "BucketKeyEnabled": True,
                        "ServerSideEncryptionByDefault": {"SSEAlgorithm": "aws:kms", "KMSMasterKeyID": key},
                    }
                ]
            },
            "LifecycleConfiguration": {
                "Rules": [
                    {
                        "Id": "old",
                        "Status": "Enabled",
                        "Prefix": "checkpoints/",
                        "ExpirationInDays": 90,
                        "NoncurrentVersionExpiration": {"NoncurrentDays": 30},
                        "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 1},
                        "Transitions": [{"StorageClass": "GLACIER", "TransitionInDays": 60}],
                    }
                ]
            },
            "OwnershipControls": {"Rules": [{"ObjectOwnership": "BucketOwnerEnforced"}]},
            "PublicAccessBlockConfiguration": {
                "BlockPublicAcls": True,
                "BlockPublicPolicy": True,
                "IgnorePublicAcls": True,
                "RestrictPublicBuckets": True,
            },
            "Tags": TAGS,
            "VersioningConfiguration": {"Status": "Enabled"},
        },
        change={"VersioningConfiguration": {"Status": "Suspended"}, "Tags": OTHER_TAGS},
    )


def bucket_policy(world: World) -> Case:
    name = world.bucket()
    deny = {
        "Effect": "Deny",
        "Principal": {"AWS": "*"},
        "Action": "s3:*",
        "Resource": [f"arn:aws:s3:::{name}", f"arn:aws:s3:::{name}/*"],
        "Condition": {"Bool": {"aws:SecureTransport": "false"}},
    }
    document = {"Version": "2012-10-17", "Statement": [deny]}
    return Case(
        properties={"Bucket": name, "PolicyDocument": document},
        change={"PolicyDocument": {**document, "Statement": [deny, {**deny, "Action": "s3:PutObject"}]}},
    )


def key(_world: World) -> Case:
    return Case(
        properties={
            "Description": "data of the cluster",
            "EnableKeyRotation": True,
            "KeyPolicy": allow("kms:*"),
            "PendingWindowInDays": 7,
            "Tags": TAGS,
        },
        change={"Description": "data", "EnableKeyRotation": False, "Tags": OTHER_TAGS},
    )


def alias(world: World) -> Case:
    other = world.make("AWS::KMS::Key", KeyPolicy=allow("kms:*"))
    return Case(
        properties={"AliasName": "alias/slipway-trial", "TargetKeyId": world.key().id},
        change={"TargetKeyId": other.id},
    )


def repository(_world: World) -> Case:
    rule = '{"rules":[{"rulePriority":1,"selection":{"tagStatus":"untagged","countType":"sinceImagePushed",\
"countUnit":"days","countNumber":14},"action":{"type":"expire"}}]}'
    return Case(
        properties={
            "RepositoryName": "slipway/trial",
            "EmptyOnDelete": True,
            "ImageScanningConfiguration": {"ScanOnPush": True},
            "ImageTagMutability": "IMMUTABLE",
            "LifecyclePolicy": {"LifecyclePolicyText": rule},
            "Tags": TAGS,
        },
        change={"ImageTagMutability": "MUTABLE", "LifecyclePolicy": None, "Tags": OTHER_TAGS},
    )


def project(world: World) -> Case:
    return Case(
        properties={
            "Artifacts": {"Type": "NO_ARTIFACTS"},
            "Description": "builds the image",
            "Environment": {
                "ComputeType": "BUILD_GENERAL1_LARGE",
                "Image": "aws/codebuild/amazonlinux2-x86_64-standard:5.0",
                "PrivilegedMode": True,
                "Type": "LINUX_CONTAINER",
                "EnvironmentVariables": [{"Name": "IMAGE", "Value": "gaudi"}],
            },
            "ServiceRole": world.role().attribute("Arn"),
            "Source": {"Type": "S3", "Location": "bucket/source.zip"},
            "TimeoutInMinutes": 60,
        },
        change={"Description": "builds and pushes the image"},
    )


def efs(_world: World) -> Case:
    return Case(
        properties={
            "Encrypted": True,
            "PerformanceMode": "generalPurpose",
            "ThroughputMode": "elastic",
            "BackupPolicy": {"Status": "ENABLED"},
            "LifecyclePolicies": [{"TransitionToIA": "AFTER_30_DAYS"}],
            "FileSystemTags": TAGS,
        },
        change={"FileSystemTags": OTHER_TAGS, "LifecyclePolicies": [{"TransitionToIA": "AFTER_7_DAYS"}]},
    )


def mount_target(world: World) -> Case:
    other = world.make("AWS::EC2::SecurityGroup", GroupDescription="other", VpcId=world.vpc())
    return Case(
        properties={
            "FileSystemId": world.file_system(),
            "SubnetId": world.subnet(),
            "SecurityGroups": [world.security_group()],
        },
        change={"SecurityGroups": [other.id]},
    )


def access_point(world: World) -> Case:
    return Case(
        properties={
            "FileSystemId": world.file_system(),
            "PosixUser": {"Uid": "1000", "Gid": "1000"},
            "RootDirectory": {
                "Path": "/data",
                "CreationInfo": {"OwnerUid": "1000", "OwnerGid": "1000", "Permissions": "755"},
            },
            "AccessPointTags": TAGS,
        },
        change={"AccessPointTags": OTHER_TAGS},
    )


def lustre(world: World) -> Case:
    return Case(
        properties={
            "FileSystemType": "LUSTRE",
            "FileSystemTypeVersion": "2.15",
            "StorageCapacity": 1200,
            "SubnetIds": [world.subnet()],
            "SecurityGroupIds": [world.security_group()],
            "LustreConfiguration": {
                "DeploymentType": "PERSISTENT_2",
                "PerUnitStorageThroughput": 125,
                "DataCompressionType": "LZ4",
            },
            "Tags": TAGS,
        },
        change={"Tags": OTHER_TAGS},
    )


def data_repository(world: World) -> Case:
    return Case(
        properties={
            "FileSystemId": world.lustre(),
            "FileSystemPath": "/data",
            "DataRepositoryPath": "s3://bucket/data",
            "BatchImportMetaDataOnCreate": True,
        },
        change={"S3": {"AutoImportPolicy": {"Events": ["NEW"]}}},
    )


def log_group(_world: World) -> Case:
    return Case(properties={"RetentionInDays": 365, "Tags": TAGS}, change={"RetentionInDays": 30})


def log_stream(world: World) -> Case:
    return Case(properties={"LogGroupName": world.log_group()})


def metric_filter(world: World) -> Case:
    transformation = {"MetricName": "errors", "MetricNamespace": "Slipway", "MetricValue": "1"}
    return Case(
        properties={
            "LogGroupName": world.log_group(),
            "FilterPattern": "ERROR",
            "MetricTransformations": [transformation],
        },
        change={"FilterPattern": "FATAL"},
    )


def logs_policy(_world: World) -> Case:
    return Case(
        properties={"PolicyName": "events", "PolicyDocument": '{"Version": "2012-10-17", "Statement": []}'},
        change={"PolicyDocument": '{"Version": "2012-10-17", "Statement": [{"Sid": "a"}]}'},
    )


def alarm(world: World) -> Case:
    return Case(
        properties={
            "AlarmDescription": "jobs stuck in RUNNABLE",
            "AlarmActions": [world.topic()],
            "ComparisonOperator": "GreaterThanThreshold",
            "Dimensions": [{"Name": "JobQueue", "Value": "dl1"}],
            "EvaluationPeriods": 3,
            "MetricName": "Runnable",
            "Namespace": "Slipway",
            "Period": 300,
            "Statistic": "Maximum",
            "Threshold": 0,
            "TreatMissingData": "notBreaching",
            "Tags": TAGS,
        },
        change={"Threshold": 1, "EvaluationPeriods": 2},
    )


def composite_alarm(world: World) -> Case:
    child = world.make("AWS::CloudWatch::Alarm", **alarm(world).properties)
    return Case(
        properties={
            "AlarmRule": f"ALARM({child.id})",
            "AlarmActions": [world.topic()],
            "ActionsEnabled": True,
        },
        change={"ActionsEnabled": False},
    )


def dashboard(_world: World) -> Case:
    return Case(
        properties={"DashboardBody": '{"widgets": []}'}, change={"DashboardBody": '{"widgets": [{}]}'}
    )


def topic(world: World) -> Case:
    return Case(
        properties={
            "DisplayName": "alerts",
            "KmsMasterKeyId": world.key().id,
            "Subscription": [{"Protocol": "email", "Endpoint": "you@example.com"}],
            "Tags": TAGS,
        },
        change={"DisplayName": "alarms", "Tags": OTHER_TAGS},
    )


def subscription(world: World) -> Case:
    return Case(
        properties={"TopicArn": world.topic(), "Protocol": "email", "Endpoint": "you@example.com"},
        change={"FilterPolicy": {"kind": ["idle"]}},
    )


def topic_policy(world: World) -> Case:
    statement = {
        "Effect": "Allow",
        "Principal": {"Service": "budgets.amazonaws.com"},
        "Action": "sns:Publish",
        "Resource": world.topic(),
    }
    document = {"Version": "2012-10-17", "Statement": [statement]}
    return Case(
        properties={"Topics": [world.topic()], "PolicyDocument": document},
        change={"PolicyDocument": {**document, "Id": "second"}},
    )


def budget(_world: World) -> Case:
    monthly = {
        "BudgetName": "slipway-trial",
        "BudgetType": "COST",
        "TimeUnit": "MONTHLY",
        "BudgetLimit": {"Amount": 5000, "Unit": "USD"},
    }
    notification = {"NotificationType": "ACTUAL", "ComparisonOperator": "GREATER_THAN", "Threshold": 80}
    subscribers = [{"SubscriptionType": "EMAIL", "Address": "you@example.com"}]
    return Case(
        properties={
            "Budget": monthly,
            "NotificationsWithSubscribers": [{"Notification": notification, "Subscribers": subscribers}],
        },
        change={"Budget": {**monthly, "BudgetLimit": {"Amount": 6000, "Unit": "USD"}}},
    )


def rule(world: World) -> Case:
    return Case(
        properties={
            "Description": "a queue is blocked",
            "EventPattern": {"source": ["aws.batch"], "detail-type": ["Batch Job Queue Blocked"]},
            "State": "ENABLED",
            "Targets": [{"Id": "alerts", "Arn": world.topic()}],
        },
        change={"State": "DISABLED"},
    )


def parameter(_world: World) -> Case:
    return Case(
        properties={"Name": "/slipway/trial", "Type": "String", "Value": "one", "Tags": TAG_MAP},
        change={"Value": "two", "Tags": OTHER_TAG_MAP},
    )


def document(_world: World) -> Case:
    step = {"action": "aws:runShellScript", "name": "run", "inputs": {"runCommand": ["true"]}}
    content = {"schemaVersion": "2.2", "description": "prepare", "mainSteps": [step]}
    return Case(
        properties={
            "Content": content,
            "DocumentType": "Command",
            "UpdateMethod": "NewVersion",
            "Tags": TAGS,
        },
        change={"Content": {**content, "description": "prepare a node"}},
    )


def secret(_world: World) -> Case:
    generated = {
        "SecretStringTemplate": '{"user": "slurm"}',
        "GenerateStringKey": "password",
        "PasswordLength": 20,
    }
    return Case(
        properties={"Description": "slurm", "GenerateSecretString": generated, "Tags": TAGS},
        change={"Description": "slurm accounting", "Tags": OTHER_TAGS},
    )


def secret_policy(world: World) -> Case:
    owner = world.make("AWS::SecretsManager::Secret", SecretString="x")
    return Case(
        properties={"SecretId": owner.id, "ResourcePolicy": allow("secretsmanager:GetSecretValue")},
        change={"ResourcePolicy": allow("secretsmanager:*")},
    )


def compute_environment(world: World) -> Case:
    return Case(
        properties={
            "Type": "MANAGED",
            "ReplaceComputeEnvironment": False,
            "UpdatePolicy": {"TerminateJobsOnUpdate": False, "JobExecutionTimeoutMinutes": 60},
            "ComputeResources": {**world.compute_resources(), "UpdateToLatestImageVersion": False},
            "Tags": TAG_MAP,
        },
        change={"State": "DISABLED"},
    )


def job_queue(world: World) -> Case:
    return Case(
        properties={
            "Priority": 1,
            "State": "ENABLED",
            "ComputeEnvironmentOrder": [{"ComputeEnvironment": world.compute_environment(), "Order": 1}],
            "Tags": TAG_MAP,
        },
        change={"Priority": 5, "State": "DISABLED"},
    )


def job_definition(_world: World) -> Case:
    container = {
        "Image": "123456789012.dkr.ecr.us-east-1.amazonaws.com/gaudi:1",
        "Command": ["python", "-m", "train"],
        "ResourceRequirements": [{"Type": "VCPU", "Value": "96"}, {"Type": "MEMORY", "Value": "700000"}],
    }
    retry = {"Attempts": 3, "EvaluateOnExit": [{"Action": "RETRY", "OnStatusReason": "Host EC2*"}]}
    return Case(
        properties={
            "Type": "container",
            "ContainerProperties": container,
            "RetryStrategy": retry,
            "Tags": TAG_MAP,
        },
        change={"ContainerProperties": {**container, "Command": ["true"]}},
    )


def scheduling_policy(_world: World) -> Case:
    return Case(
        properties={"FairsharePolicy": {"ShareDecaySeconds": 60}, "Tags": TAG_MAP},
        change={"FairsharePolicy": {"ShareDecaySeconds": 120}},
    )


def lifecycle_policy(world: World) -> Case:
    return Case(
        properties={
            "Name": "keep-three",
            "ExecutionRole": world.role().attribute("Arn"),
            "ResourceType": "AMI_IMAGE",
            "PolicyDetails": [
                {"Action": {"Type": "DELETE"}, "Filter": {"Type": "COUNT", "Value": 3}},
            ],
            "ResourceSelection": {"TagMap": TAG_MAP},
        },
        change={"Status": "DISABLED"},
    )


def domain(world: World) -> Case:
    return Case(
        properties={
            "AuthMode": "IAM",
            "DomainName": "trial",
            "VpcId": world.vpc(),
            "SubnetIds": [world.subnet()],
            "DefaultUserSettings": {"ExecutionRole": world.role().attribute("Arn")},
            "Tags": TAGS,
        },
        change={"Tags": OTHER_TAGS},
    )


def hyperpod(world: World) -> Case:
    group = {
        "InstanceGroupName": "workers",
        "InstanceType": "ml.trn1.32xlarge",
        "InstanceCount": 2,
        "ThreadsPerCore": 1,
        "ExecutionRole": world.role().attribute("Arn"),
        "LifeCycleConfig": {"SourceS3Uri": "s3://sagemaker-bucket/", "OnCreate": "on_create.sh"},
    }
    return Case(properties={"InstanceGroups": [group], "Tags": TAGS}, change={"Tags": OTHER_TAGS})


def pipeline(world: World) -> Case:
    return Case(
        properties={
            "PipelineName": "trial",
            "PipelineDefinition": {"PipelineDefinitionBody": '{"Version": "2020-12-01", "Steps": []}'},
            "RoleArn": world.role().attribute("Arn"),
            "Tags": TAGS,
        },
        change={"PipelineDescription": "trial"},
    )


def model_package_group(_world: World) -> Case:
    return Case(properties={"ModelPackageGroupName": "trial", "Tags": TAGS}, change={"Tags": OTHER_TAGS})


def wait_handle(_world: World) -> Case:
    return Case(properties={})


def cdk_metadata(_world: World) -> Case:
    return Case(properties={"Analytics": "v2:deflate64:abc"}, change={"Analytics": "v2:deflate64:def"})


def slurm(**settings: str) -> dict[str, Any]:
    custom = [{"ParameterName": name, "ParameterValue": value} for name, value in settings.items()]
    return {"ScaleDownIdleTimeInSeconds": 300, "SlurmCustomSettings": custom}


def pcs_cluster(world: World) -> Case:
    return Case(
        properties={
            "Name": "trial",
            "Size": "SMALL",
            "Scheduler": {"Type": "SLURM", "Version": "25.05"},
            "Networking": {"SubnetIds": [world.subnet()], "SecurityGroupIds": [world.security_group()]},
            "SlurmConfiguration": slurm(Prolog="/opt/prolog.sh"),
            "Tags": TAG_MAP,
        },
        change={"SlurmConfiguration": slurm(Prolog="/opt/other.sh"), "Tags": OTHER_TAG_MAP},
    )


def node_group(world: World) -> Case:
    cluster = world.make("AWS::PCS::Cluster", **pcs_cluster(world).properties)
    template = world.launch_template()
    return Case(
        properties={
            "ClusterId": cluster.attribute("Id"),
            "Name": "trn1",
            "SubnetIds": [world.subnet()],
            "PurchaseOption": "ONDEMAND",
            "CustomLaunchTemplate": {"TemplateId": template.id, "Version": "1"},
            "IamInstanceProfileArn": world.instance_profile().attribute("Arn"),
            "ScalingConfiguration": {"MinInstanceCount": 0, "MaxInstanceCount": 4},
            "InstanceConfigs": [{"InstanceType": "trn1.32xlarge"}],
            "Tags": TAG_MAP,
        },
        change={"ScalingConfiguration": {"MinInstanceCount": 0, "MaxInstanceCount": 8}},
    )


def pcs_queue(world: World) -> Case:
    group = world.make("AWS::PCS::ComputeNodeGroup", **node_group(world).properties)
    return Case(
        properties={
            "ClusterId": group.properties["ClusterId"],
            "Name": "train",
            "ComputeNodeGroupConfigurations": [{"ComputeNodeGroupId": group.attribute("Id")}],
            "Tags": TAG_MAP,
        },
        change={"Tags": OTHER_TAG_MAP},
    )


def component(_world: World) -> Case:
    return Case(
        properties={
            "Name": "efa",
            "Version": "1.2.3",
            "Platform": "Linux",
            "Data": "name: efa\nschemaVersion: 1.0\nphases: []\n",
            "Tags": TAG_MAP,
        },
        change={"Tags": OTHER_TAG_MAP},
    )


def image_recipe(world: World) -> Case:
    part = world.make("AWS::ImageBuilder::Component", **component(world).properties)
    return Case(
        properties={
            "Name": "neuron",
            "Version": "1.0.0",
            "ParentImage": "ami-12c6146b",
            "Components": [{"ComponentArn": part.id}],
            "BlockDeviceMappings": [
                {
                    "DeviceName": "/dev/xvda",
                    "Ebs": {"VolumeSize": 200, "Encrypted": True},
                }
            ],
            "Tags": TAG_MAP,
        },
        change={"Tags": OTHER_TAG_MAP},
    )


def infrastructure(world: World) -> Case:
    return Case(
        properties={
            "Name": "neuron",
            "InstanceProfileName": world.instance_profile().id,
            "InstanceTypes": ["trn1.2xlarge"],
            "InstanceMetadataOptions": {"HttpTokens": "required", "HttpPutResponseHopLimit": 1},
            "SubnetId": world.subnet(),
            "SecurityGroupIds": [world.security_group()],
            "TerminateInstanceOnFailure": True,
        },
        change={"InstanceTypes": ["trn1.32xlarge"]},
    )


def distribution(_world: World) -> Case:
    def to(name: str) -> list[dict[str, Any]]:
        return [{"Region": "us-east-1", "AmiDistributionConfiguration": {"Name": name, "AmiTags": TAG_MAP}}]

    return Case(
        properties={"Name": "neuron", "Distributions": to("neuron-{{ imagebuilder:buildDate }}")},
        change={"Distributions": to("trn-{{ imagebuilder:buildDate }}")},
    )


def image_pipeline(world: World) -> Case:
    recipe = world.make("AWS::ImageBuilder::ImageRecipe", **image_recipe(world).properties)
    machines = world.make(
        "AWS::ImageBuilder::InfrastructureConfiguration", **infrastructure(world).properties
    )
    return Case(
        properties={
            "Name": "neuron",
            "ImageRecipeArn": recipe.id,
            "InfrastructureConfigurationArn": machines.id,
            "Status": "ENABLED",
            "ImageTestsConfiguration": {"ImageTestsEnabled": True, "TimeoutMinutes": 60},
        },
        change={"Status": "DISABLED"},
    )


CASES: Mapping[str, Callable[[World], Case]] = {
    "AWS::EC2::VPC": vpc,
    "AWS::EC2::Subnet": subnet,
    "AWS::EC2::VPCEndpoint": endpoint,
    "AWS::EC2::FlowLog": flow_log,
    "AWS::EC2::RouteTable": route_table,
    "AWS::EC2::Route": route,
    "AWS::EC2::SubnetRouteTableAssociation": association,
    "AWS::EC2::InternetGateway": internet_gateway,
    "AWS::EC2::VPCGatewayAttachment": gateway_attachment,
    "AWS::EC2::EIP": elastic_ip,
    "AWS::EC2::NatGateway": nat_gateway,
    "AWS::EC2::SecurityGroup": security_group,
    "AWS::EC2::SecurityGroupIngress": ingress,
    "AWS::EC2::SecurityGroupEgress": egress,
    "AWS::EC2::LaunchTemplate": launch_template,
    "AWS::EC2::PlacementGroup": placement_group,
    "AWS::EC2::Instance": instance,
    "AWS::AutoScaling::AutoScalingGroup": scaling_group,
    "AWS::AutoScaling::ScheduledAction": scheduled_action,
    "AWS::AutoScaling::ScalingPolicy": scaling_policy,
    "AWS::AutoScaling::LifecycleHook": lifecycle_hook,
    "AWS::IAM::Role": role,
    "AWS::IAM::Policy": policy,
    "AWS::IAM::ManagedPolicy": managed_policy,
    "AWS::IAM::InstanceProfile": instance_profile,
    "AWS::IAM::ServiceLinkedRole": service_linked_role,
    "AWS::S3::Bucket": bucket,
    "AWS::S3::BucketPolicy": bucket_policy,
    "AWS::KMS::Key": key,
    "AWS::KMS::Alias": alias,
    "AWS::ECR::Repository": repository,
    "AWS::CodeBuild::Project": project,
    "AWS::EFS::FileSystem": efs,
    "AWS::EFS::MountTarget": mount_target,
    "AWS::EFS::AccessPoint": access_point,
    "AWS::FSx::FileSystem": lustre,
    "AWS::FSx::DataRepositoryAssociation": data_repository,
    "AWS::Logs::LogGroup": log_group,
    "AWS::Logs::LogStream": log_stream,
    "AWS::Logs::MetricFilter": metric_filter,
    "AWS::Logs::ResourcePolicy": logs_policy,
    "AWS::CloudWatch::Alarm": alarm,
    "AWS::CloudWatch::CompositeAlarm": composite_alarm,
    "AWS::CloudWatch::Dashboard": dashboard,
    "AWS::SNS::Topic": topic,
    "AWS::SNS::Subscription": subscription,
    "AWS::SNS::TopicPolicy": topic_policy,
    "AWS::Budgets::Budget": budget,
    "AWS::Events::Rule": rule,
    "AWS::SSM::Parameter": parameter,
    "AWS::SSM::Document": document,
    "AWS::SecretsManager::Secret": secret,
    "AWS::SecretsManager::ResourcePolicy": secret_policy,
    "AWS::Batch::ComputeEnvironment": compute_environment,
    "AWS::Batch::JobQueue": job_queue,
    "AWS::Batch::JobDefinition": job_definition,
    "AWS::Batch::SchedulingPolicy": scheduling_policy,
    "AWS::PCS::Cluster": pcs_cluster,
    "AWS::PCS::ComputeNodeGroup": node_group,
    "AWS::PCS::Queue": pcs_queue,
    "AWS::ImageBuilder::Component": component,
    "AWS::ImageBuilder::ImageRecipe": image_recipe,
    "AWS::ImageBuilder::InfrastructureConfiguration": infrastructure,
    "AWS::ImageBuilder::DistributionConfiguration": distribution,
    "AWS::ImageBuilder::ImagePipeline": image_pipeline,
    "AWS::ImageBuilder::LifecyclePolicy": lifecycle_policy,
    "AWS::SageMaker::Domain": domain,
    "AWS::SageMaker::Cluster": hyperpod,
    "AWS::SageMaker::Pipeline": pipeline,
    "AWS::SageMaker::ModelPackageGroup": model_package_group,
    "AWS::CloudFormation::WaitConditionHandle": wait_handle,
    "AWS::CDK::Metadata": cdk_metadata,
}
