"""`slipway yard mail`: the mails that AWS would have sent."""

from __future__ import annotations

import click

from slipway.jobs.output import Column, json_option, print_table, say
from slipway.jobs.words.errors import SlipwayError

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

    An address gets nothing from a topic before it confirms its subscription. On AWS, that is a click in the
    mail that asks for it.
    """
    from slipway.yard import process
    from slipway.yard.endpoint import control

    yard = process.required()
    if confirm is not None:
        confirmed = control(yard, "POST", "/confirm-mail", {"address": confirm})
        if not confirmed:
            raise SlipwayError(
                f"no subscription of {confirm} waits to be confirmed",
                hint="list the mails: slipway yard mail",
            )
        say(f"confirmed {confirmed} subscriptions of {confirm}")
    print_table("mails", MAIL, control(yard, "GET", "/mail"), as_json=as_json)
