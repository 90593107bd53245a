"""Cases of permissions, storage, messages, functions and stacks."""

from __future__ import annotations

import json

from tests.yard.cloudformation.resources.cases.case import (
    OTHER_TAG_MAP,
    OTHER_TAGS,
    TAG_MAP,
    TAGS,
    Case,
    Cases,
    case,
)
from tests.yard.cloudformation.resources.world import TRUST, World, allow

INLINE = {"ZipFile": "def handler(event, context): return event"}
CODE = {"Runtime": "python3.12", "Handler": "index.handler"}


def instance_profile(world: World) -> Case:
    other = world.make("AWS::IAM::Role", AssumeRolePolicyDocument=TRUST)
    return case(Roles=[world.role().id]).changed(Roles=[other.id])


def alias(world: World) -> Case:
    other = world.make("AWS::KMS::Key", KeyPolicy=allow("kms:*"))
    return case(AliasName="alias/slipway-trial", TargetKeyId=world.key().id).changed(TargetKeyId=other.id)


def secret(_world: World) -> Case:
    generated = {
        "SecretStringTemplate": '{"user": "slurm"}',
        "GenerateStringKey": "password",
        "PasswordLength": 20,
    }
    return case(Description="slurm", GenerateSecretString=generated, Tags=TAGS).changed(
        Description="slurm accounting", Tags=OTHER_TAGS
    )


def secret_policy(world: World) -> Case:
    owner = world.make("AWS::SecretsManager::Secret", SecretString="x")
    return case(SecretId=owner.id, ResourcePolicy=allow("secretsmanager:GetSecretValue")).changed(
        ResourcePolicy=allow("secretsmanager:*")
    )


def bucket(world: World) -> Case:
    key = world.key().attribute("Arn")
    return case(
        BucketEncryption={
            "ServerSideEncryptionConfiguration": [
                {
                    "BucketKeyEnabled": True,
                    "ServerSideEncryptionByDefault": {"SSEAlgorithm": "aws:kms", "KMSMasterKeyID": key},
                }
            ]
        },
        LifecycleConfiguration={
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
        OwnershipControls={"Rules": [{"ObjectOwnership": "BucketOwnerEnforced"}]},
        PublicAccessBlockConfiguration={
            "BlockPublicAcls": True,
            "BlockPublicPolicy": True,
            "IgnorePublicAcls": True,
            "RestrictPublicBuckets": True,
        },
        Tags=TAGS,
        VersioningConfiguration={"Status": "Enabled"},
    ).changed(VersioningConfiguration={"Status": "Suspended"}, Tags=OTHER_TAGS)


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
    return case(Bucket=name, PolicyDocument=document).changed(
        PolicyDocument={**document, "Statement": [deny, {**deny, "Action": "s3:PutObject"}]}
    )


def repository(_world: World) -> Case:
    expiry = {
        "tagStatus": "untagged",
        "countType": "sinceImagePushed",
        "countUnit": "days",
        "countNumber": 14,
    }
    rule = json.dumps({"rules": [{"rulePriority": 1, "selection": expiry, "action": {"type": "expire"}}]})
    return case(
        RepositoryName="slipway/trial",
        EmptyOnDelete=True,
        ImageScanningConfiguration={"ScanOnPush": True},
        ImageTagMutability="IMMUTABLE",
        LifecyclePolicy={"LifecyclePolicyText": rule},
        Tags=TAGS,
    ).changed(ImageTagMutability="MUTABLE", LifecyclePolicy=None, Tags=OTHER_TAGS)


def mount_target(world: World) -> Case:
    other = world.make("AWS::EC2::SecurityGroup", GroupDescription="other", VpcId=world.vpc())
    return case(
        FileSystemId=world.file_system(), SubnetId=world.subnet(), SecurityGroups=[world.security_group()]
    ).changed(SecurityGroups=[other.id])


def metric_filter(world: World) -> Case:
    transformation = {"MetricName": "errors", "MetricNamespace": "Slipway", "MetricValue": "1"}
    return case(
        LogGroupName=world.log_group(), FilterPattern="ERROR", MetricTransformations=[transformation]
    ).changed(FilterPattern="FATAL")


def alarm(world: World) -> Case:
    return case(
        AlarmDescription="jobs stuck in RUNNABLE",
        AlarmActions=[world.topic()],
        ComparisonOperator="GreaterThanThreshold",
        Dimensions=[{"Name": "JobQueue", "Value": "dl1"}],
        EvaluationPeriods=3,
        MetricName="Runnable",
        Namespace="Slipway",
        Period=300,
        Statistic="Maximum",
        Threshold=0,
        TreatMissingData="notBreaching",
        Tags=TAGS,
    ).changed(Threshold=1, EvaluationPeriods=2)


def composite_alarm(world: World) -> Case:
    child = world.make("AWS::CloudWatch::Alarm", **alarm(world).properties)
    return case(AlarmRule=f"ALARM({child.id})", AlarmActions=[world.topic()], ActionsEnabled=True).changed(
        ActionsEnabled=False
    )


def topic_policy(world: World) -> Case:
    statement = {
        "Effect": "Allow",
        "Principal": {"Service": "budgets.amazonaws.com"},
        "Action": "sns:Publish",
        "Resource": world.topic(),
    }
    document = {"Version": "2012-10-17", "Statement": [statement]}
    return case(Topics=[world.topic()], PolicyDocument=document).changed(
        PolicyDocument={**document, "Id": "second"}
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
    return case(
        Budget=monthly,
        NotificationsWithSubscribers=[{"Notification": notification, "Subscribers": subscribers}],
    ).changed(Budget={**monthly, "BudgetLimit": {"Amount": 6000, "Unit": "USD"}})


def document(_world: World) -> Case:
    step = {"action": "aws:runShellScript", "name": "run", "inputs": {"runCommand": ["true"]}}
    content = {"schemaVersion": "2.2", "description": "prepare", "mainSteps": [step]}
    return case(Content=content, DocumentType="Command", UpdateMethod="NewVersion", Tags=TAGS).changed(
        Content={**content, "description": "prepare a node"}
    )


def permission(world: World) -> Case:
    made = world.make("AWS::Lambda::Function", **CODE, Code=INLINE, Role=world.role().attribute("Arn"))
    return case(FunctionName=made.id, Action="lambda:InvokeFunction", Principal="events.amazonaws.com")


def layer(world: World) -> Case:
    world.client("s3").put_object(Bucket=world.bucket(), Key="layer.zip", Body=b"PK\x05\x06" + bytes(18))
    world.objects.append((world.bucket(), "layer.zip"))
    return case(Content={"S3Bucket": world.bucket(), "S3Key": "layer.zip"})


def nested(world: World) -> Case:
    template = {"Resources": {"Topic": {"Type": "AWS::SNS::Topic"}}}
    world.client("s3").put_object(Bucket=world.bucket(), Key="child.json", Body=json.dumps(template).encode())
    world.objects.append((world.bucket(), "child.json"))
    url = f"https://{world.bucket()}.s3.{world.region}.amazonaws.com/child.json"
    return case(TemplateURL=url).changed(Tags=TAGS)


CASES: Cases = {
    "AWS::IAM::Role": lambda _world: case(
        AssumeRolePolicyDocument=TRUST,
        Description="runs the nodes",
        ManagedPolicyArns=["arn:aws:iam::aws:policy/AmazonSSMManagedInstanceCore"],
        Policies=[{"PolicyName": "data", "PolicyDocument": allow("s3:GetObject")}],
        Tags=TAGS,
    ).changed(
        Policies=[{"PolicyName": "data", "PolicyDocument": allow("s3:PutObject")}],
        ManagedPolicyArns=["arn:aws:iam::aws:policy/CloudWatchAgentServerPolicy"],
        Description="runs the nodes of dl1",
    ),
    "AWS::IAM::Policy": lambda world: case(
        PolicyName="logs", PolicyDocument=allow("logs:PutLogEvents"), Roles=[world.role().id]
    ).changed(PolicyDocument=allow("logs:*")),
    "AWS::IAM::ManagedPolicy": lambda world: case(
        Description="boundary", PolicyDocument=allow("s3:GetObject"), Roles=[world.role().id]
    ).changed(PolicyDocument=allow("s3:*")),
    "AWS::IAM::InstanceProfile": instance_profile,
    "AWS::IAM::ServiceLinkedRole": lambda _world: case(
        AWSServiceName="fsx.amazonaws.com", Description="for FSx"
    ).changed(Description="for FSx for Lustre"),
    "AWS::KMS::Key": lambda _world: case(
        Description="data of the cluster",
        EnableKeyRotation=True,
        KeyPolicy=allow("kms:*"),
        PendingWindowInDays=7,
        Tags=TAGS,
    ).changed(Description="data", EnableKeyRotation=False, Tags=OTHER_TAGS),
    "AWS::KMS::Alias": alias,
    "AWS::SecretsManager::Secret": secret,
    "AWS::SecretsManager::ResourcePolicy": secret_policy,
    "AWS::S3::Bucket": bucket,
    "AWS::S3::BucketPolicy": bucket_policy,
    "AWS::ECR::Repository": repository,
    "AWS::CodeBuild::Project": lambda world: case(
        Artifacts={"Type": "NO_ARTIFACTS"},
        Description="builds the image",
        Environment={
            "ComputeType": "BUILD_GENERAL1_LARGE",
            "Image": "aws/codebuild/amazonlinux2-x86_64-standard:5.0",
            "PrivilegedMode": True,
            "Type": "LINUX_CONTAINER",
            "EnvironmentVariables": [{"Name": "IMAGE", "Value": "gaudi"}],
        },
        ServiceRole=world.role().attribute("Arn"),
        Source={"Type": "S3", "Location": "bucket/source.zip"},
        TimeoutInMinutes=60,
    ).changed(Description="builds and pushes the image"),
    "AWS::EFS::FileSystem": lambda _world: case(
        Encrypted=True,
        PerformanceMode="generalPurpose",
        ThroughputMode="elastic",
        BackupPolicy={"Status": "ENABLED"},
        LifecyclePolicies=[{"TransitionToIA": "AFTER_30_DAYS"}],
        FileSystemTags=TAGS,
    ).changed(FileSystemTags=OTHER_TAGS, LifecyclePolicies=[{"TransitionToIA": "AFTER_7_DAYS"}]),
    "AWS::EFS::MountTarget": mount_target,
    "AWS::EFS::AccessPoint": lambda world: case(
        FileSystemId=world.file_system(),
        PosixUser={"Uid": "1000", "Gid": "1000"},
        RootDirectory={
            "Path": "/data",
            "CreationInfo": {"OwnerUid": "1000", "OwnerGid": "1000", "Permissions": "755"},
        },
        AccessPointTags=TAGS,
    ).changed(AccessPointTags=OTHER_TAGS),
    "AWS::FSx::FileSystem": lambda world: case(
        FileSystemType="LUSTRE",
        FileSystemTypeVersion="2.15",
        StorageCapacity=1200,
        SubnetIds=[world.subnet()],
        SecurityGroupIds=[world.security_group()],
        LustreConfiguration={
            "DeploymentType": "PERSISTENT_2",
            "PerUnitStorageThroughput": 125,
            "DataCompressionType": "LZ4",
        },
        Tags=TAGS,
    ).changed(Tags=OTHER_TAGS),
    "AWS::FSx::DataRepositoryAssociation": lambda world: case(
        FileSystemId=world.lustre(),
        FileSystemPath="/data",
        DataRepositoryPath="s3://bucket/data",
        BatchImportMetaDataOnCreate=True,
    ).changed(S3={"AutoImportPolicy": {"Events": ["NEW"]}}),
    "AWS::Logs::LogGroup": lambda _world: case(RetentionInDays=365, Tags=TAGS).changed(RetentionInDays=30),
    "AWS::Logs::LogStream": lambda world: case(LogGroupName=world.log_group()),
    "AWS::Logs::MetricFilter": metric_filter,
    "AWS::Logs::ResourcePolicy": lambda _world: case(
        PolicyName="events", PolicyDocument='{"Version": "2012-10-17", "Statement": []}'
    ).changed(PolicyDocument='{"Version": "2012-10-17", "Statement": [{"Sid": "a"}]}'),
    "AWS::CloudWatch::Alarm": alarm,
    "AWS::CloudWatch::CompositeAlarm": composite_alarm,
    "AWS::CloudWatch::Dashboard": lambda _world: case(DashboardBody='{"widgets": []}').changed(
        DashboardBody='{"widgets": [{}]}'
    ),
    "AWS::SNS::Topic": lambda world: case(
        DisplayName="alerts",
        KmsMasterKeyId=world.key().id,
        Subscription=[{"Protocol": "email", "Endpoint": "you@example.com"}],
        Tags=TAGS,
    ).changed(DisplayName="alarms", Tags=OTHER_TAGS),
    "AWS::SNS::Subscription": lambda world: case(
        TopicArn=world.topic(), Protocol="email", Endpoint="you@example.com"
    ).changed(FilterPolicy={"kind": ["idle"]}),
    "AWS::SNS::TopicPolicy": topic_policy,
    "AWS::Budgets::Budget": budget,
    "AWS::Events::Rule": lambda world: case(
        Description="a queue is blocked",
        EventPattern={"source": ["aws.batch"], "detail-type": ["Batch Job Queue Blocked"]},
        State="ENABLED",
        Targets=[{"Id": "alerts", "Arn": world.topic()}],
    ).changed(State="DISABLED"),
    "AWS::SSM::Parameter": lambda _world: case(
        Name="/slipway/trial", Type="String", Value="one", Tags=TAG_MAP
    ).changed(Value="two", Tags=OTHER_TAG_MAP),
    "AWS::SSM::Document": document,
    "AWS::CloudFormation::WaitConditionHandle": lambda _world: case(),
    "AWS::CDK::Metadata": lambda _world: case(Analytics="v2:deflate64:abc").changed(
        Analytics="v2:deflate64:def"
    ),
    "AWS::Events::EventBus": lambda _world: case(Name="trial", Tags=TAGS).changed(Tags=OTHER_TAGS),
    "AWS::Lambda::Function": lambda world: case(
        **CODE, Code=INLINE, Role=world.role().attribute("Arn"), Tags=TAGS
    ).changed(MemorySize=256),
    "AWS::Lambda::Permission": permission,
    "AWS::Lambda::LayerVersion": layer,
    "AWS::CloudFormation::Stack": nested,
    "AWS::AutoScaling::LaunchConfiguration": lambda _world: case(
        ImageId="ami-12c6146b", InstanceType="c6i.large", InstanceMonitoring=False
    ),
}
