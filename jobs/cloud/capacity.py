"""Reads what EC2 lets an account start: vCPU quotas, and capacity reservations.

Each quota counts all families in its name, for one way to buy, in one region.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from slipway.jobs.cloud.aws import Unanswered, ask, ask_all, reader
from slipway.jobs.words.catalogue.instances import CAPACITY_BLOCK, SPOT

SERVICE = "ec2"


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    code: str
    name: str
    vcpus: float


def ask_quotas(region: str) -> list[Mapping[str, Any]] | Unanswered:
    """Return EC2's quotas of a region as Service Quotas lists them."""
    answer: list[Mapping[str, Any]] | Unanswered = ask_all(
        reader("service-quotas", region), "ListServiceQuotas", "Quotas", ServiceCode=SERVICE
    )
    return answer


def find_quota(quotas: Iterable[Mapping[str, Any]], instance_type: str, market: str) -> Quota | None:
    """Find the quota by its name (Running On-Demand DL instances, …), since AWS promises no code."""
    family = re.match(r"[a-z]+", instance_type)
    # The names of a market's quotas have the letters of the families that each counts.
    named = r"All (.+) Spot Instance Requests" if market == SPOT else r"Running On-Demand (.+) instances"
    for quota in quotas:
        counted = re.fullmatch(named, quota["QuotaName"])
        if counted and family and family[0] in re.findall(r"[a-z]+", counted[1].lower()):
            return Quota(code=quota["QuotaCode"], name=quota["QuotaName"], vcpus=quota["Value"])
    return None


def ask_quota(instance_type: str, region: str, market: str) -> Quota | Unanswered | None:
    """Ask for the quota that counts a type; None if none does."""
    quotas = ask_quotas(region)
    return quotas if isinstance(quotas, Unanswered) else find_quota(quotas, instance_type, market)


# Capacity reservations: what one holds, and until when a capacity block's instances run. EC2 user guide,
# "Capacity Blocks for ML": EC2 begins to end the instances this long before the end of the block.
ENDS_EARLY = timedelta(minutes=30)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    state: str
    zone: str
    instance_type: str
    free: int
    total: int
    is_block: bool = False
    placement_group: str | None = None  # which it was made in: it takes no instance of another
    begins: datetime | None = None
    ends: datetime | None = None  # None: open until it is cancelled

    @property
    def last_minute(self) -> datetime | None:
        """Return when EC2 begins to end a capacity block's instances; None for other reservations."""
        return self.ends - ENDS_EARLY if self.is_block and self.ends else None

    def seconds_left(self, now: datetime) -> float | None:
        """Count the seconds that a job of a capacity block can have at most; None where nothing ends it."""
        last = self.last_minute
        return None if last is None else (last - max(now, self.begins or now)).total_seconds()


def ask_reservation(reservation_id: str | None, region: str) -> Reservation | Unanswered | None:
    if reservation_id is None:
        return None
    answer = ask(
        reader("ec2", region), "DescribeCapacityReservations", CapacityReservationIds=[reservation_id]
    )
    if isinstance(answer, Unanswered):
        return None if answer.code.startswith("InvalidCapacityReservationId") else answer
    return next(map(_reservation, answer["CapacityReservations"]), None)


def _reservation(reservation: Mapping[str, Any]) -> Reservation:
    return Reservation(
        state=reservation["State"],
        zone=reservation["AvailabilityZone"],
        instance_type=reservation["InstanceType"],
        free=reservation.get("AvailableInstanceCount", 0),
        total=reservation["TotalInstanceCount"],
        is_block=reservation.get("ReservationType") == CAPACITY_BLOCK,
        placement_group=reservation.get("PlacementGroupArn"),
        begins=reservation.get("StartDate"),
        ends=reservation.get("EndDate"),
    )


def in_utc(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
