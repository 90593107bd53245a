"""`slipway yard denied` and `slipway yard permissions`: what roles were refused, and what they never used."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from slipway.jobs.output import Column, json_option, print_json, print_table, say
from slipway.jobs.words.errors import SlipwayError

if TYPE_CHECKING:
    from slipway.yard.endpoint import Yard

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


def limit_caller(yard: Yard, role: str) -> None:
    """Judge the holder of the yard's own key by a role that is in the yard."""
    from slipway.yard.endpoint import control

    try:
        arn = control(yard, "POST", "/caller-role", "" if role == ADMINISTRATOR else role)
    except SlipwayError as error:
        raise SlipwayError(
            str(error),
            hint=MAKE_IT_FIRST,
        ) from None
    say(f"your calls are judged by the policies of {arn}" if arn else "your calls are an administrator's")


@click.command()
@json_option
def denied(as_json: bool) -> None:
    """List what roles and services were refused, each with the statement that would allow it."""
    from slipway.yard import process
    from slipway.yard.endpoint import control

    rows = control(process.required(), "GET", "/denied")
    if as_json:
        print_json(rows)
        return
    shown = [{**row, "statement": json.dumps(row["statement"]) if row["statement"] else "-"} for row in rows]
    print_table("denied", DENIED, shown, as_json=False)


@click.command()
@click.option("--unused", is_flag=True, help="Only actions that no call has used since the yard started.")
@click.option("--role", default="", help="Only roles whose name begins with this text.")
@json_option
def permissions(unused: bool, role: str, as_json: bool) -> None:
    """List the actions that roles are allowed, and how often each was used."""
    from slipway.yard import process
    from slipway.yard.endpoint import control

    rows = [
        row
        for row in control(process.required(), "GET", "/permissions")
        if row["role"].startswith(role) and not (unused and row["used"])
    ]
    print_table("permissions", PERMISSIONS, rows, as_json=as_json)
