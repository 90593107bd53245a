"""`slipway yard stand-in`, `grant-quota`, `mail`, `denied` and `permissions`: the state of the account."""

from __future__ import annotations

import json

import click

from slipway.jobs.output import Column, json_option, print_json, print_table, say
from slipway.jobs.words.errors import SlipwayError
from slipway.yard.commands.asking import ask

REGION = "us-east-1"
# A copy of the list in services/ec2/empty_amis.py, so that help need not load it. A test compares them.
IMAGES = ("cpu-mpi", "gaudi-ecs", "gaudi-mpi", "neuron-slurm")


@click.command(name="stand-in", short_help="Register an AMI that nothing was baked into.")
@click.argument("image", type=click.Choice(IMAGES))
@click.option("--region", default=REGION, show_default=True, help="Region of the AMI and its parameters.")
def stand_in(image: str, region: str) -> None:
    """Register an empty AMI, instead of waiting minutes for `slipway image bake`.

    A cluster can then be deployed. Its hosts boot from this machine's own files, so the AMI is not tested.
    """
    ami = ask("POST", "/stand-in", {"image": image, "region": region})
    say(f"{ami} stands in for {image} in {region}; nothing was baked into it")


@click.command(name="grant-quota", short_help="Set a quota of EC2 or SageMaker at once.")
@click.argument("code")
@click.argument("vcpus", type=click.IntRange(0))
@click.option("--region", help="Region of the quota  [default: all]")
def grant_quota(code: str, vcpus: int, region: str | None) -> None:
    """Set an EC2 quota to VCPUS at once; AWS takes days to grant a request.

    CODE is Service Quotas' code. A new yard has the quotas of a fresh account: 5 vCPUs of standard
    instances, and none of accelerated ones. SageMaker's quotas count instances; their names work, too.

    \b
    slipway yard grant-quota L-1216C47A 256     # standard instances, such as c6i
    slipway yard grant-quota L-6E869C2A 1536    # DL instances
    slipway yard grant-quota "ml.p4d.24xlarge for training job usage" 2
    """
    asked = {"code": code, "vcpus": vcpus, "region": region}
    said = ask("POST", "/grant-quota", asked)
    unit = "instances" if said.startswith("ml.") else "vCPUs"
    say(f"the quota '{said}' is {vcpus} {unit} in {region or 'every Region'}")


# `slipway yard mail`: the mails that AWS would have sent.
MAIL = (
    Column(name="sent_at", title="sent"),
    Column(name="to"),
    Column(name="subject"),
    Column(name="text"),
)


@click.command()
@click.option("--confirm", metavar="ADDRESS", help="Confirm all subscriptions of this address first.")
@json_option
def mail(confirm: str | None, as_json: bool) -> None:
    """List the mails that AWS would have sent, the oldest first.

    An address gets nothing from a topic before it confirms its subscription. On AWS, its owner confirms with
    a click in the first mail.
    """
    if confirm is not None:
        confirmed = ask("POST", "/confirm-mail", {"address": confirm})
        if not confirmed:
            raise SlipwayError(
                f"no subscription of {confirm} waits to be confirmed",
                hint="list the mails: slipway yard mail",
            )
        say(f"confirmed {confirmed} subscriptions of {confirm}")
    print_table("mails", MAIL, ask("GET", "/mail"), as_json=as_json)


# `slipway yard denied` and `slipway yard permissions`: what roles were refused, and which actions they used.
DENIED = (
    Column(name="role"),
    Column(name="action"),
    Column(name="resource"),
    Column(name="times", align="right"),
    Column(name="policy", title="to allow it, change"),
    Column(name="statement", title="with this statement"),
)
PERMISSIONS = (
    Column(name="role"),
    Column(name="action"),
    Column(name="used", align="right"),
    Column(name="policy"),
)


ADMINISTRATOR = "administrator"
MAKE_IT_FIRST = "make the role in the running yard, then: slipway yard up --caller-role NAME"


def limit_caller(role: str) -> None:
    """Limit calls that are signed with the yard's own key to the policies of a role in the yard."""

    try:
        arn = ask("POST", "/caller-role", "" if role == ADMINISTRATOR else role)
    except SlipwayError as error:
        raise SlipwayError(str(error), hint=MAKE_IT_FIRST) from None
    say(f"your calls are judged by the policies of {arn}" if arn else "your calls may do everything")


@click.command(short_help="List what was refused, with the statement that allows it.")
@json_option
def denied(as_json: bool) -> None:
    """List what roles and services were refused, each with the statement that would allow it."""
    rows = ask("GET", "/denied")
    if as_json:
        print_json(rows)
        return
    shown = [{**row, "statement": json.dumps(row["statement"]) if row["statement"] else "-"} for row in rows]
    print_table("denied", DENIED, shown, as_json=False)


@click.command(short_help="List what roles are allowed, and how often each was used.")
@click.option("--unused", is_flag=True, help="Only actions that no call has used since the yard started.")
@click.option("--role", default="", help="Only roles whose name begins with this text.")
@json_option
def permissions(unused: bool, role: str, as_json: bool) -> None:
    """List the actions that roles are allowed, and how often each was used."""
    rows = [
        row
        for row in ask("GET", "/permissions")
        if row["role"].startswith(role) and not (unused and row["used"])
    ]
    print_table("permissions", PERMISSIONS, rows, as_json=as_json)
