"""What the machines of a Slurm cluster may do in AWS: workers, and the login node that takes jobs.

AWS PCS takes an instance profile only if the role's path or name says that it is for PCS (AWS PCS user guide,
"IAM instance profiles for AWS PCS"). A job has its node's rights: Slurm starts it on the machine itself.
"""

from __future__ import annotations

from dataclasses import dataclass

from aws_cdk import aws_iam as iam
from constructs import Construct

from slipway.infra.patterns.access.node_access import report_metrics, session_manager
from slipway.infra.patterns.access.roles import ServiceRole, ServiceRoleProps
from slipway.infra.patterns.access.run_command import run_command_output
from slipway.infra.patterns.storage.buckets import UseBucketProps, bucket_statements
from slipway.infra.patterns.storage.cluster_storage import ClusterStorage
from slipway.infra.patterns.storage.encryption import write_logs
from slipway.jobs.words.job import PROJECT_PREFIX

ROLE_PATH = "/aws-pcs/"
# Requests and code come from who submits; a job writes its own results and data.
_WRITTEN = ("data/*", "datasets/*", "jobs/*")
_READ = ("code/*", f"{PROJECT_PREFIX}*", *_WRITTEN)


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmAccessProps:
    storage: ClusterStorage
    log_group_arn: str


class SlurmAccess(Construct):
    def __init__(self, scope: Construct, id: str, *, props: SlurmAccessProps) -> None:
        super().__init__(scope, id)
        every_machine = (
            _register(),
            session_manager(),
            report_metrics(),
            *bucket_statements(UseBucketProps(bucket=props.storage.bucket, read=_READ, write=_WRITTEN)),
            props.storage.use_keys(),
        )
        self.worker = _machine(
            self,
            "Machine",
            "Workers: join Slurm, run its jobs, send their logs",
            (*every_machine, write_logs(props.log_group_arn)),
        )
        self.login = _machine(
            self,
            "Login",
            "Login node: join Slurm and answer Systems Manager",
            (*every_machine, *run_command_output(self, props.log_group_arn)),
        )


class MachineRole(Construct):
    """Pairs a role with its instance profile, both under the path that AWS PCS asks for."""

    def __init__(
        self, scope: Construct, id: str, *, description: str, statements: tuple[iam.PolicyStatement, ...]
    ) -> None:
        super().__init__(scope, id)
        self.role = ServiceRole(
            self,
            "Role",
            props=ServiceRoleProps(
                service="ec2",
                description=description,
                path=ROLE_PATH,
                for_this_account_only=False,
                statements=statements,
            ),
        )
        self.profile = iam.CfnInstanceProfile(
            self, "Profile", path=ROLE_PATH, roles=[self.role.role.role_name]
        )
        # A machine registers with its permissions in place.
        self.profile.node.add_dependency(self.role.policy)

    @property
    def profile_arn(self) -> str:
        return self.profile.attr_arn


def _machine(
    scope: Construct, id: str, description: str, statements: tuple[iam.PolicyStatement, ...]
) -> MachineRole:
    return MachineRole(scope, id, description=description, statements=statements)


def _register() -> iam.PolicyStatement:
    """Allow what AWS's own AWSPCSComputeNodePolicy does: an instance registers before it knows its group."""
    return iam.PolicyStatement(
        sid="RegisterWithPcs", actions=["pcs:RegisterComputeNodeGroupInstance"], resources=["*"]
    )
