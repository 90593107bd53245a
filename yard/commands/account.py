"""`slipway yard stand-in` and `slipway yard grant-quota`: what makes a fresh account ready at once."""

from __future__ import annotations

import click

from slipway.jobs.output import say

REGION = "us-east-1"
# A copy of the list in services/ec2/stand_ins.py, which help must not load. A test compares them.
IMAGES = ("cpu-mpi", "gaudi-ecs", "gaudi-mpi", "neuron-slurm")


@click.command(name="stand-in")
@click.argument("image", type=click.Choice(IMAGES))
@click.option("--region", default=REGION, show_default=True, help="Region of the AMI and its parameters.")
def stand_in(image: str, region: str) -> None:
    """Register an AMI that nothing was baked into, in place of minutes of `slipway bake`.

    A cluster can then be deployed. Its hosts boot from this machine's own files: nothing of the AMI is tried.
    """
    from slipway.yard import process
    from slipway.yard.endpoint import control

    ami = control(process.required(), "POST", "/stand-in", {"image": image, "region": region})
    say(f"{ami} stands in for {image} in {region}; nothing was baked into it")


@click.command(name="grant-quota")
@click.argument("code")
@click.argument("vcpus", type=click.IntRange(0))
@click.option("--region", help="Region of the quota  [default: all]")
def grant_quota(code: str, vcpus: int, region: str | None) -> None:
    """Set a quota of EC2 to VCPUS at once, as AWS does days after a request.

    CODE is Service Quotas' code. A new yard has the quotas of a fresh account: 5 vCPUs of standard
    instances, and none of accelerated ones. SageMaker's quotas count instances; they go by their names, too.

    \b
    slipway yard grant-quota L-1216C47A 256     # standard instances, such as c6i
    slipway yard grant-quota L-6E869C2A 1536    # DL instances
    slipway yard grant-quota "ml.p4d.24xlarge for training job usage" 2
    """
    from slipway.yard import process
    from slipway.yard.endpoint import control

    asked = {"code": code, "vcpus": vcpus, "region": region}
    said = control(process.required(), "POST", "/grant-quota", asked)
    unit = "instances" if said.startswith("ml.") else "vCPUs"
    say(f"the quota '{said}' is {vcpus} {unit} in {region or 'every Region'}")
