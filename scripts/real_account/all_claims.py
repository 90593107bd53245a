"""List every claim in the order of trials, and write the report of what was confirmed or refuted."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from scripts.page_templates import table
from scripts.real_account import mpi_claims, platform_claims
from scripts.real_account.account import Account, now
from scripts.real_account.claims import Claim, Proof, bake, deployed, not_tried, preflight
from scripts.real_account.clusters import BATCH, CPU, GPU, MPI, MPI_DL1, SAGEMAKER, SLURM, SmallCluster

# The last claim, tried after everything was removed: around.py proves it.
NOTHING_LEFT = "nothing-left"
_MOST_EVIDENCE = 12  # of each claim the last requests


def _claim(name: str, stage: str, prove: Callable[[Account], Proof], promise: str) -> Claim:
    return Claim(name=name, promise=promise, stage=stage, prove=prove)


def _deploys(stage: str, cluster: SmallCluster, what: str) -> Claim:
    promise = f"CloudFormation accepts {what}, and starts no machine"
    return _claim(f"deploy-{stage}", stage, partial(deployed, cluster=cluster), promise)


def _bakes(stage: str, cluster: SmallCluster, what: str) -> Claim:
    promise = f"{what} bakes, and holds what its lock says"
    return _claim(f"bake-{stage}", f"bakery-{stage}", partial(bake, cluster=cluster), promise)


CLAIMS = (
    _claim("preflight", "", preflight, "AWS answers every question of preflight"),
    _deploys("cpu", CPU, "a Batch cluster on AWS's own AMI"),
    _claim(
        "job-cpu",
        "cpu",
        partial(platform_claims.nodes_meet, cluster=CPU),
        "two c6i.xlarge boot AWS's AMI, run AWS's container, and meet, without a bake",
    ),
    _deploys("gpu", GPU, "a Batch cluster of GPUs on AWS's own AMI"),
    _claim(
        "job-gpu",
        "gpu",
        partial(platform_claims.nodes_meet, cluster=GPU),
        "two g6.xlarge boot AWS's AMI, run AWS's container, and meet by NCCL, without a bake",
    ),
    _bakes("mpi", MPI, "the AMI of the MPI machines"),
    _deploys("mpi", MPI, "the MPI cluster"),
    _claim("job-mpi", "mpi", mpi_claims.job, "two nodes start by a submission and run a job over MPI"),
    _claim("alarm", "mpi", mpi_claims.reaches_the_address, "an alarm's mail reaches the address"),
    _claim("reboot", "mpi", mpi_claims.reboot, "a rebooted node mounts the shared files and takes jobs"),
    _claim(
        "lost-node",
        "mpi",
        mpi_claims.lost_node,
        "a job that loses a node fails by its name, with exit code 85",
    ),
    _deploys("mpi-dl1", MPI_DL1, "DL1's cluster without AWS Batch"),
    _bakes("batch", BATCH, "the DL1's AMI"),
    _deploys("batch", BATCH, "the Batch cluster"),
    _claim(
        "build-batch",
        "batch",
        platform_claims.build_image,
        "CodeBuild builds the DL1's container image and pushes it",
    ),
    _claim(
        "job-batch",
        "batch",
        platform_claims.batch_job,
        "a multi-node job meets on two nodes of the DL1's Ubuntu AMI, without the accelerator",
    ),
    _claim(
        "stuck-batch",
        "batch",
        platform_claims.batch_stuck,
        "a job that cannot start says why, and ends when it is cancelled",
    ),
    _bakes("slurm", SLURM, "the AMI of Trn1's machines"),
    _claim(
        "deploy-slurm",
        "slurm",
        platform_claims.slurm_deployed,
        "CloudFormation accepts the Slurm cluster, and PCS starts its login node alone",
    ),
    _claim(
        "job-slurm",
        "slurm",
        platform_claims.slurm_job,
        "two workers start by a submission and run a job under Slurm",
    ),
    _claim("idle-slurm", "slurm", platform_claims.given_back, "PCS takes workers back that have no job"),
    _deploys("sagemaker", SAGEMAKER, "the SageMaker cluster"),
    _claim(
        "job-sagemaker",
        "sagemaker",
        platform_claims.training_job,
        "SageMaker starts one ml.m5.large for a training job, with the cluster's role and network",
    ),
)
NAMES = (*(claim.name for claim in CLAIMS), NOTHING_LEFT)


def write_report(
    path: Path, proofs: Mapping[str, Proof], *, region: str, is_yard: bool, secrets: Sequence[str]
) -> None:
    """Write the report; `secrets` (account number, address) are blotted out, since the report is public."""
    where = f"a yard, so it proves nothing about AWS ({region})" if is_yard else f"AWS, {region}"
    title = "Tried in the yard" if is_yard else "Confirmed on AWS"
    found = ((promise, proofs.get(name, not_tried("it was not asked for"))) for name, promise in promises())
    rows = table((promise, proof.outcome, _cell(proof.seen)) for promise, proof in found)
    text = f"# {title}\n\nWritten by `scripts/acceptance` on {now()}, against {where}.\n\n"
    text += f"| Claim | Outcome | Seen |\n|---|---|---|\n{rows}"
    for name, promise in promises():
        if name in proofs and proofs[name].evidence:
            last = proofs[name].evidence[-_MOST_EVIDENCE:]
            rows = table((f"`{_cell(each.what)}`", each.request_id, each.at) for each in last)
            text += f"\n## {promise}\n\n| Request | Id | At (UTC) |\n|---|---|---|\n{rows}"
    for secret in filter(None, secrets):
        text = text.replace(secret, "…")
    path.write_text(text, encoding="utf-8")


def promises() -> tuple[tuple[str, str], ...]:
    own = tuple((claim.name, claim.promise) for claim in CLAIMS)
    return (*own, (NOTHING_LEFT, "everything that was made is gone afterwards"))


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
