"""A job that may cost more than was agreed to is not sent; at a terminal commands/submit.py asks first."""

from __future__ import annotations

import math
from collections.abc import Callable

from slipway.jobs.cloud import aws
from slipway.jobs.words.cost import AGREED_UNSAID, UNKNOWN, Agreed, Cost
from slipway.jobs.words.errors import SlipwayError

Confirm = Callable[[str, Cost], None]  # a job's name and ceiling; raises where it must not be sent


class Unconfirmed(SlipwayError):
    """The job may cost more than the user agreed to."""


def refuse_unconfirmed(name: str, ceiling: Cost, agreed: Agreed = AGREED_UNSAID) -> None:
    """Refuse a job that may cost more than agreed; in the yard nothing costs money."""
    if aws.is_in_yard() or agreed.covers(ceiling):
        return
    enough = UNKNOWN if ceiling.usd is None else math.ceil(ceiling.usd)
    raise Unconfirmed(
        f"{name} may cost {ceiling.words}, but you agreed to {agreed.usd:g} USD at most",
        hint=f"--confirm-cost {enough}, or fewer --nodes, --timeout-hours or --attempts",
    )
