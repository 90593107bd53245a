"""The rights of SageMaker and a training container in AWS: both have one role, which jobs name.

Each statement answers a line of SageMaker's developer guide, "How to use execution roles", CreateTrainingJob.
"""

from __future__ import annotations

from aws_cdk import ArnFormat, Stack
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sns as sns
from constructs import Construct

from slipway.infra.declare.types import SageMakerCluster
from slipway.infra.patterns.access.roles import ServiceRole, read_secrets_of_jobs, report_metrics
from slipway.infra.patterns.foundation import Foundation
from slipway.infra.patterns.images.image_project import pull_statements
from slipway.infra.patterns.observability.alarms import alarm_at_one, event_detail, events_of
from slipway.infra.patterns.statements import Statement, allow
from slipway.infra.patterns.storage.buckets import job_data
from slipway.infra.patterns.storage.file_systems import SharedFiles
from slipway.jobs.words.catalogue.instances import instance_type
from slipway.jobs.words.targets import SageMakerTarget


class TrainingAccess(Construct):
    """Takes the URI of the training image, in a registry of AWS's."""

    def __init__(
        self, scope: Construct, id: str, *, base: Foundation, security_group_id: str, image: str
    ) -> None:
        super().__init__(scope, id)
        storage = base.storage
        # SageMaker may pass the key on to the volumes of a job's instances, and to nothing else.
        grant_volumes = allow(
            "EncryptVolumes",
            "kms:CreateGrant",
            on=storage.key.key_arn,
            where={"Bool": {"kms:GrantIsForAWSResource": "true"}},
        )
        find_the_files = allow("FindTheFiles", "fsx:DescribeFileSystems", on="*")  # that a channel names
        self.role = ServiceRole(
            self,
            "Execution",
            service="sagemaker",
            description="Training jobs: their image, their network, their data and their log",
            statements=(
                *job_data(storage),
                grant_volumes,
                *pull_statements(self),
                _pull_the_image_of_aws(self, image),
                *_write_the_log(self),
                # SageMaker's namespace has the name of its log group.
                report_metrics("ReportMetrics", SageMakerTarget.log_group),
                read_secrets_of_jobs(self),
                *_join_the_network(self, base.subnet_id, security_group_id),
                *([find_the_files] if storage.files.file_system_id else []),
            ),
        )


def _pull_the_image_of_aws(scope: Construct, image: str) -> Statement:
    """Allow the repository of AWS's registry that the URI names: ACCOUNT.dkr.ecr.REGION.HOST/NAME:TAG."""
    registry, _, named = image.partition("/")
    account, _, _, region = registry.split(".")[:4]
    arn = Stack.of(scope).format_arn(
        service="ecr",
        account=account,
        region=region,
        resource="repository",
        resource_name=named.partition("@")[0].partition(":")[0],
    )
    return allow(
        "PullTheTrainingImage",
        "ecr:BatchCheckLayerAvailability",
        "ecr:BatchGetImage",
        "ecr:GetDownloadUrlForLayer",
        on=arn,
    )


def _write_the_log(scope: Construct) -> tuple[Statement, ...]:
    """Allow SageMaker's log group, which it makes with the first job of an account."""
    group = Stack.of(scope).format_arn(
        service="logs",
        resource="log-group",
        resource_name=SageMakerTarget.log_group,
        arn_format=ArnFormat.COLON_RESOURCE_NAME,
    )
    make = allow(
        "MakeTheLogGroup",
        "logs:CreateLogGroup",
        "logs:DescribeLogStreams",
        on=[group, f"{group}:log-stream:*"],
    )
    write = allow("WriteLogs", "logs:CreateLogStream", "logs:PutLogEvents", on=f"{group}:log-stream:*")
    return make, write


def _join_the_network(scope: Construct, subnet_id: str, security_group_id: str) -> tuple[Statement, ...]:
    """Let SageMaker put an interface of each instance into the one subnet, in the one group."""

    def ec2(sort: str, name: str) -> str:
        return Stack.of(scope).format_arn(service="ec2", resource=sort, resource_name=name)

    subnet, interfaces = ec2("subnet", subnet_id), ec2("network-interface", "*")
    group = ec2("security-group", security_group_id)
    make = allow("MakeInterfaces", "ec2:CreateNetworkInterface", on=[subnet, group, interfaces])
    hand_on = allow(
        "HandInterfacesToSageMaker",
        "ec2:CreateNetworkInterfacePermission",
        "ec2:DeleteNetworkInterface",
        on=interfaces,
        where={"ArnEquals": {"ec2:Subnet": subnet}},
    )
    look = allow(
        "LookAtTheNetwork",
        "ec2:DeleteNetworkInterfacePermission",
        "ec2:DescribeDhcpOptions",
        "ec2:DescribeNetworkInterfaces",
        "ec2:DescribeSecurityGroups",
        "ec2:DescribeSubnets",
        "ec2:DescribeVpcs",
        on="*",
    )
    return make, hand_on, look


# A job's settings for its disks: the key of its volume, and the path of shared files.


def volume_key(cluster: SageMakerCluster, key: kms.IKey) -> str | None:
    """Return the cluster's key; None for local storage, which the host encrypts by itself.

    SageMaker refuses a job that names a key for such a type (API reference, ResourceConfig, VolumeKmsKeyId).
    """
    return None if instance_type(cluster.instance_type).local_storage_gb else key.key_arn


def file_system_path(files: SharedFiles) -> str | None:
    """Return the path of a Lustre for a job's channel: its whole tree, which begins with the mount name."""
    return f"/{files.mount_name}" if files.file_system_id else None


# Failed training jobs are mailed, each with SageMaker's reason, and raise an alarm. SageMaker has no metric
# of them. The event names the role of the job, which belongs to one cluster.


class FailedJobs(Construct):
    def __init__(self, scope: Construct, id: str, *, cluster: str, role_arn: str, topic: sns.ITopic) -> None:
        super().__init__(scope, id)
        rule = events.Rule(
            self,
            "Events",
            description=f"Training jobs of Slipway cluster {cluster} that failed",
            event_pattern=events.EventPattern(
                source=["aws.sagemaker"],
                detail_type=["SageMaker Training Job State Change"],
                detail={"TrainingJobStatus": ["Failed"], "RoleArn": [role_arn]},
            ),
        )
        message = (
            f"Job {event_detail('TrainingJobName')} of Slipway cluster {cluster} failed: "
            f"{event_detail('FailureReason')}"
        )
        rule.add_target(targets.SnsTopic(topic, message=events.RuleTargetInput.from_text(message)))
        described = f"Jobs of {cluster} fail: `slipway explain JOB`"
        self.alarm = alarm_at_one(self, "Alarm", described, metric=events_of(rule), periods=1)
        self.alarm.add_alarm_action(actions.SnsAction(topic))
