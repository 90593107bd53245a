"""List every claim in the order of trials, and write the report of what was confirmed or refuted."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from scripts.real_account import mpi_claims, platform_claims
from scripts.real_account.account import Account, now
from scripts.real_account.claims import Claim, Proof, bake, deployed, preflight
from scripts.real_account.clusters import BATCH, CPU, GPU, MPI, MPI_DL1, SAGEMAKER, SLURM, SmallCluster

# The last claim, tried after everything was removed: around.py proves it.
NOTHING_LEFT = "nothing-left"
_MOST_EVIDENCE = 12  # of each claim the last requests


def _of(prove: Callable[[Account, SmallCluster], Proof], cluster: SmallCluster) -> Callable[[Account], Proof]:
    return lambda account: prove(account, cluster)


def _deploys(stage: str, cluster: SmallCluster, what: str) -> Claim:
    promise = f"CloudFormation accepts {what}, and starts no machine"
    return Claim(name=f"deploy-{stage}", promise=promise, stage=stage, prove=_of(deployed, cluster))


def _bakes(stage: str, cluster: SmallCluster, what: str) -> Claim:
    promise = f"{what} bakes, and holds what its lock says"
    return Claim(name=f"bake-{stage}", promise=promise, stage=f"bakery-{stage}", prove=_of(bake, cluster))


CLAIMS = (
    Claim(
        name="preflight",
        promise="AWS answers every question of preflight",
        stage="",
        prove=preflight,
    ),
    _deploys("cpu", CPU, "a Batch cluster on AWS's own AMI"),
    Claim(
        name="job-cpu",
        promise="two c6i.xlarge boot AWS's AMI, run AWS's container, and meet, without a bake",
        stage="cpu",
        prove=_of(platform_claims.nodes_meet, CPU),
    ),
    _deploys("gpu", GPU, "a Batch cluster of GPUs on AWS's own AMI"),
    Claim(
        name="job-gpu",
        promise="two g6.xlarge boot AWS's AMI, run AWS's container, and meet by NCCL, without a bake",
        stage="gpu",
        prove=_of(platform_claims.nodes_meet, GPU),
    ),
    _bakes("mpi", MPI, "the AMI of the MPI machines"),
    _deploys("mpi", MPI, "the MPI cluster"),
    Claim(
        name="job-mpi",
        promise="two nodes start by a submission and run a job over MPI",
        stage="mpi",
        prove=mpi_claims.job,
    ),
    Claim(
        name="alarm",
        promise="an alarm's mail reaches the address",
        stage="mpi",
        prove=mpi_claims.reaches_the_address,
    ),
    Claim(
        name="reboot",
        promise="a rebooted node mounts the shared files and takes jobs",
        stage="mpi",
        prove=mpi_claims.reboot,
    ),
    Claim(
        name="lost-node",
        promise="a job that loses a node fails by its name, with exit code 85",
        stage="mpi",
        prove=mpi_claims.lost_node,
    ),
    _deploys("mpi-dl1", MPI_DL1, "DL1's cluster without AWS Batch"),
    _bakes("batch", BATCH, "the DL1's AMI"),
    _deploys("batch", BATCH, "the Batch cluster"),
    Claim(
        name="build-batch",
        promise="CodeBuild builds the DL1's container image and pushes it",
        stage="batch",
        prove=platform_claims.build_image,
    ),
    Claim(
        name="job-batch",
        promise="a multi-node job meets on two nodes of the DL1's Ubuntu AMI, without the accelerator",
        stage="batch",
        prove=platform_claims.batch_job,
    ),
    Claim(
        name="stuck-batch",
        promise="a job that cannot start says why, and ends when it is cancelled",
        stage="batch",
        prove=platform_claims.batch_stuck,
    ),
    _bakes("slurm", SLURM, "the AMI of Trn1's machines"),
    Claim(
        name="deploy-slurm",
        promise="CloudFormation accepts the Slurm cluster, and PCS starts its login node alone",
        stage="slurm",
        prove=platform_claims.slurm_deployed,
    ),
    Claim(
        name="job-slurm",
        promise="two workers start by a submission and run a job under Slurm",
        stage="slurm",
        prove=platform_claims.slurm_job,
    ),
    Claim(
        name="idle-slurm",
        promise="PCS takes workers back that have no job",
        stage="slurm",
        prove=platform_claims.given_back,
    ),
    _deploys("sagemaker", SAGEMAKER, "the SageMaker cluster"),
    Claim(
        name="job-sagemaker",
        promise="SageMaker starts one ml.m5.large for a training job, with the cluster's role and network",
        stage="sagemaker",
        prove=platform_claims.training_job,
    ),
)
NAMES = (*(claim.name for claim in CLAIMS), NOTHING_LEFT)


def write_report(
    path: Path, proofs: Mapping[str, Proof], *, region: str, is_yard: bool, secrets: Sequence[str]
) -> None:
    """Write the report; `secrets` (account number, address) are blotted out, since the report is public."""
    where = f"a yard, so it proves nothing about AWS ({region})" if is_yard else f"AWS, {region}"
    lines = [
        "# Tried in the yard" if is_yard else "# Confirmed on AWS",
        "",
        f"Written by `scripts/acceptance` on {now()}, against {where}.",
        "",
        "| Claim | Outcome | Seen |",
        "|---|---|---|",
    ]
    for name, promise in promises():
        proof = proofs.get(name)
        outcome, seen = (proof.outcome, proof.seen) if proof else ("not tried", "it was not asked for")
        lines.append(f"| {promise} | {outcome} | {_cell(seen)} |")
    for name, promise in promises():
        if name in proofs and proofs[name].evidence:
            lines += ("", f"## {promise}", "", "| Request | Id | At (UTC) |", "|---|---|---|")
            for each in proofs[name].evidence[-_MOST_EVIDENCE:]:
                lines.append(f"| `{_cell(each.what)}` | {each.request_id} | {each.at} |")
    text = "\n".join([*lines, ""])
    for secret in filter(None, secrets):
        text = text.replace(secret, "…")
    path.write_text(text, encoding="utf-8")


def promises() -> tuple[tuple[str, str], ...]:
    own = tuple((claim.name, claim.promise) for claim in CLAIMS)
    return (*own, (NOTHING_LEFT, "everything that was made is gone afterwards"))


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
