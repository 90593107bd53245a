"""The rights of a node of an MPI cluster in AWS, and the part of them that its jobs have."""

from __future__ import annotations

from datetime import timedelta

from aws_cdk import ArnFormat, Stack
from constructs import Construct

from slipway.infra.declare.types import MpiCluster
from slipway.infra.patterns.access.cluster_secret import ClusterSecret
from slipway.infra.patterns.access.documents import command_content, command_document, text_parameter
from slipway.infra.patterns.access.roles import (
    AssumedRole,
    ServiceRole,
    read_secrets_of_jobs,
    report_metrics,
    run_command_output,
    session_manager,
)
from slipway.infra.patterns.foundation import NodeFoundation
from slipway.infra.patterns.mpi.node_group import node_group_name
from slipway.infra.patterns.statements import allow
from slipway.infra.patterns.storage.buckets import bucket_statements, job_data
from slipway.jobs.words.job import NAME, REQUEST_KEYS
from slipway.jobs.words.mpi import READY_KEY
from slipway.jobs.words.names import derived_name


class MpiAccess(Construct):
    def __init__(
        self, scope: Construct, id: str, *, cluster: MpiCluster, base: NodeFoundation, secret: ClusterSecret
    ) -> None:
        super().__init__(scope, id)
        # Auto Scaling makes up the id in the middle of the ARN.
        own_group = Stack.of(self).format_arn(
            service="autoscaling",
            resource="autoScalingGroup",
            resource_name=f"*:autoScalingGroupName/{node_group_name(cluster.name)}",
            arn_format=ArnFormat.COLON_RESOURCE_NAME,
        )
        find_nodes = allow("FindNodes", "ec2:DescribeInstances", on="*")
        self.node_role = ServiceRole(
            self,
            "Machine",
            service="ec2",
            description="Nodes: join the cluster, run its jobs, answer Systems Manager",
            statements=(
                session_manager(),
                report_metrics(),
                find_nodes,
                *bucket_statements(base.storage.bucket, read=(REQUEST_KEYS, READY_KEY), write=(READY_KEY,)),
                base.storage.use_keys(),
                *base.storage.files.may_mount(self),
                # A node that cannot join its cluster leaves the group.
                allow("LeaveGroup", "autoscaling:TerminateInstanceInAutoScalingGroup", on=own_group),
                # A waiting job sees how the others end. Jobs themselves may not: it shows the parameters of
                # every command in the Region.
                allow("FollowJobs", "ssm:ListCommands", on="*"),
                *run_command_output(base.job_logs.arn),
                *secret.read_statements(),
            ),
        )
        self.job_role = AssumedRole(
            self,
            "Jobs",
            by=self.node_role.role,
            description="Jobs on the nodes: the cluster's bucket, and what starts and ends a job",
            statements=(
                find_nodes,
                allow("ProtectJobs", "autoscaling:SetInstanceProtection", on=own_group),
                *job_data(base.storage),
                read_secrets_of_jobs(self),
            ),
        )
        secret.close_to_all_but(self.node_role.arn)


# How a job reaches its nodes: two documents of Systems Manager, one that runs it and one that ends it. Their
# only texts from outside are names of a pattern without any character special to a shell.
NODE_COMMAND = "/opt/slipway/venv/bin/slipway-node"
_STOP_SECONDS = 120


class RunDocuments(Construct):
    def __init__(self, scope: Construct, id: str, *, cluster: MpiCluster) -> None:
        super().__init__(scope, id)
        key = text_parameter(
            "Where the request lies in the cluster's bucket", rf"^jobs/{NAME}/request\.json$"
        )
        seconds = text_parameter("When the job is ended", "^[1-9][0-9]{1,5}$")
        longest = str(cluster.job_timeout // timedelta(seconds=1))
        run = command_content(
            f"Runs one job on Slipway cluster {cluster.name}; sent to its main node",
            {"RequestKey": key, "TimeoutSeconds": {**seconds, "default": longest}},
            step="node",
            command=f"exec {NODE_COMMAND} run '{{{{ RequestKey }}}}'",
            timeout="{{ TimeoutSeconds }}",
        )
        stop = command_content(
            f"Ends what a job left on a node of Slipway cluster {cluster.name}",
            {"Job": text_parameter("The job's name", f"^{NAME}$")},
            step="node",
            command=f"exec {NODE_COMMAND} stop '{{{{ Job }}}}'",
            timeout=str(_STOP_SECONDS),
        )
        self.run = command_document(self, "Run", document_name(cluster.name, "run"), run)
        self.stop = command_document(self, "Stop", document_name(cluster.name, "stop"), stop)


def document_name(cluster: str, verb: str) -> str:
    return derived_name("document", f"slipway-{cluster}", verb)
