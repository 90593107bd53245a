"""The rights of a Slurm cluster's machines in AWS: workers, and the login node that takes jobs.

AWS PCS accepts an instance profile only if the role's path or name is for PCS (AWS PCS user guide, "IAM
instance profiles for AWS PCS"). A job has its node's rights: Slurm starts it on the machine itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from aws_cdk import aws_iam as iam
from constructs import Construct

from slipway.infra.declare.node_images import container_uri, node_image_of, registry_of, runs_containers
from slipway.infra.declare.types import SlurmCluster
from slipway.infra.patterns.access.documents import command_content, command_document, text_parameter
from slipway.infra.patterns.access.roles import (
    ServiceRole,
    read_secrets_of_jobs,
    report_metrics,
    run_command_output,
    session_manager,
)
from slipway.infra.patterns.encryption import write_logs
from slipway.infra.patterns.foundation import NodeFoundation
from slipway.infra.patterns.images.image_project import pull_statements
from slipway.infra.patterns.images.payload import NodeSoftware, deliver_node_software
from slipway.infra.patterns.statements import Statement, allow
from slipway.infra.patterns.storage.buckets import bucket_statements, job_data
from slipway.jobs.words.job import CODE_PREFIX, NAME, REQUEST_KEYS
from slipway.jobs.words.names import derived_name
from slipway.jobs.words.slurm import ACTIONS, NODE_MODULE, PYTHON

ROLE_PATH = "/aws-pcs/"


@dataclass(frozen=True, slots=True, kw_only=True)
class BareMachines:
    """Names what machines of AWS's own AMI fetch: this project, and the container that ranks run in."""

    software: NodeSoftware
    container: str | None
    registry: str | None  # the account of AWS's that publishes the container


def bare_machines(scope: Construct, cluster: SlurmCluster) -> BareMachines | None:
    """Deliver what the machines fetch at their first boot; None if a bake has put it into their AMI."""
    if node_image_of(cluster).is_baked:
        return None
    return BareMachines(
        software=deliver_node_software(scope, "Software", installed_by="slurm_first_boot.sh"),
        container=container_of(cluster),
        registry=registry_of(cluster) if runs_containers(cluster) else None,
    )


def container_of(cluster: SlurmCluster) -> str | None:
    return container_uri(cluster) if runs_containers(cluster) else None


def first_boot_parameters(bare: BareMachines | None) -> Mapping[str, object]:
    """Return the parameters of nodes of AWS's own AMI for what they fetch."""
    if bare is None:
        return {}
    software = {"payload": bare.software.parameters}
    if bare.container is None:
        return software
    registry = bare.container.partition("/")[0]
    return {**software, "container": bare.container, "container_registry": registry}


class SlurmAccess(Construct):
    def __init__(
        self, scope: Construct, id: str, *, base: NodeFoundation, bare: BareMachines | None = None
    ) -> None:
        super().__init__(scope, id)
        # As AWS's AWSPCSComputeNodePolicy does.
        register = allow("RegisterWithPcs", "pcs:RegisterComputeNodeGroupInstance", on="*")
        mount = base.storage.files.may_mount(self)
        every_machine: tuple[Statement, ...] = (register, session_manager(), report_metrics(), *mount)
        if bare:
            fetch = allow("FetchSoftware", "s3:GetObject", on=bare.software.object_arn)
            every_machine = (fetch, *pull_statements(self, bare.registry), *every_machine)
        self.worker = MachineRole(
            self,
            "Machine",
            description="Workers: join Slurm, run its jobs, send their logs",
            statements=(
                *every_machine,
                *job_data(base.storage),
                write_logs(base.job_logs.arn),
                read_secrets_of_jobs(self),
            ),
        )
        self.login = MachineRole(
            self,
            "Login",
            description="Login node: join Slurm and answer Systems Manager",
            statements=(
                *every_machine,
                *bucket_statements(base.storage.bucket, read=(REQUEST_KEYS, f"{CODE_PREFIX}*")),
                base.storage.use_keys(),
                *run_command_output(base.job_logs.arn),
            ),
        )


class MachineRole(Construct):
    """Pairs a role with its instance profile, both under the path that AWS PCS requires."""

    def __init__(
        self, scope: Construct, id: str, *, description: str, statements: tuple[Statement, ...]
    ) -> None:
        super().__init__(scope, id)
        self.role = ServiceRole(
            self,
            "Role",
            service="ec2",
            description=description,
            path=ROLE_PATH,
            statements=statements,
        )
        self.profile = iam.CfnInstanceProfile(
            self, "Profile", path=ROLE_PATH, roles=[self.role.role.role_name]
        )
        # A machine registers after its permissions exist.
        self.profile.node.add_dependency(self.role.policy)

    @property
    def profile_arn(self) -> str:
        return self.profile.attr_arn


# How jobs reach Slurm from outside: one document of Systems Manager, which acts on the login node. Every text
# from outside must match a pattern without any character special to a shell.
_SECONDS = 300  # the controller answers at once or not at all


class RunDocument(Construct):
    def __init__(self, scope: Construct, id: str, *, cluster: SlurmCluster) -> None:
        super().__init__(scope, id)
        request = text_parameter(
            "Where a job's request lies in the bucket", rf"^(jobs/{NAME}/request\.json)?$"
        )
        digest = text_parameter("SHA-256 of the request", "^([0-9a-f]{64})?$")
        parameters: dict[str, Mapping[str, object]] = {
            "Action": {"type": "String", "description": "What to do", "allowedValues": list(ACTIONS)},
            "Request": {**request, "default": ""},
            "Digest": {**digest, "default": ""},
        }
        words = (f"'{{{{ {name} }}}}'" for name in parameters)
        content = command_content(
            f"Submits to, asks and cancels on Slipway cluster {cluster.name}; for its login node",
            parameters,
            step="login",
            command=" ".join(["exec", PYTHON, "-m", NODE_MODULE, *words]),
            timeout=str(_SECONDS),
        )
        self.resource = command_document(self, "Resource", run_document_name(cluster.name), content)


def run_document_name(cluster: str) -> str:
    return derived_name("document", f"slipway-{cluster}", "slurm")
