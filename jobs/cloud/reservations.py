"""EC2's capacity reservations: what one holds, and until when instances of a capacity block run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from slipway.jobs.cloud.aws import Unanswered, ask, reader
from slipway.jobs.cloud.vcpu_quotas import CAPACITY_BLOCK

# EC2 user guide, "Capacity Blocks for ML": so long before the end of a block EC2 begins to end its instances.
ENDS_EARLY = timedelta(minutes=30)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    state: str
    zone: str
    instance_type: str
    free: int
    total: int
    is_block: bool = False
    begins: datetime | None = None
    ends: datetime | None = None  # None: when it is cancelled

    @property
    def last_minute(self) -> datetime | None:
        """Return when EC2 takes the instances of a capacity block; None for other reservations."""
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
        begins=reservation.get("StartDate"),
        ends=reservation.get("EndDate"),
    )


def in_utc(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
