"""Throttles calls as AWS does: a token bucket for each kind of call, and each service's own refusal.

Rates: EC2 API guide, "Request throttling"; AWS Batch user guide, "Service quotas"; the services' quota pages.
Where AWS publishes no rate, _OTHERS applies. To add a rate: a row of RATES; a service's refusal: one of
_WORDS.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from slipway.yard.chaos import conditions
from slipway.yard.errors import ApiError

READS = ("Describe", "Get", "List", "BatchGet", "Head", "Lookup")


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestRate:
    burst: float  # tokens in a full bucket
    per_second: float


# An operation with a row has its own bucket; a service's other reads share one bucket, its other changes
# another.
RATES: Mapping[tuple[str, str], RequestRate] = {
    ("batch", "SubmitJob"): RequestRate(burst=50, per_second=50),
    ("ec2", "read"): RequestRate(burst=100, per_second=20),
    ("ec2", "change"): RequestRate(burst=50, per_second=5),
    ("ec2", "RunInstances"): RequestRate(burst=5, per_second=2),
    ("logs", "DescribeLogStreams"): RequestRate(burst=25, per_second=25),
    ("logs", "FilterLogEvents"): RequestRate(burst=5, per_second=5),
    ("logs", "GetLogEvents"): RequestRate(burst=25, per_second=25),
    ("s3", "read"): RequestRate(burst=5500, per_second=5500),
    ("s3", "change"): RequestRate(burst=3500, per_second=3500),
    ("ssm", "GetParameter"): RequestRate(burst=40, per_second=40),
    ("sts", "read"): RequestRate(burst=600, per_second=600),
}
_OTHERS = RequestRate(burst=40, per_second=10)

RATE_EXCEEDED = "Rate exceeded"
# The refusal of a service: code, status, message. Others answer as the services of their protocol do.
_WORDS: Mapping[str, tuple[str, int, str]] = {
    "batch": ("TooManyRequestsException", 429, "Too Many Requests"),
    "ec2": ("RequestLimitExceeded", 503, "Request limit exceeded."),
    "efs": ("ThrottlingException", 429, RATE_EXCEEDED),
    "imagebuilder": (
        "CallRateLimitExceededException",
        429,
        "You have exceeded the permitted request rate for the specific operation.",
    ),
    "lambda": ("TooManyRequestsException", 429, RATE_EXCEEDED),
    "s3": ("SlowDown", 503, "Please reduce your request rate."),
    "service-quotas": ("TooManyRequestsException", 400, RATE_EXCEEDED),
    "sns": ("Throttled", 429, RATE_EXCEEDED),
    "sqs": ("RequestThrottled", 400, RATE_EXCEEDED),
}
# Services that began with AWS's query protocol keep its error code, whatever protocol they use today.
_QUERIED = frozenset({"autoscaling", "cloudformation", "cloudwatch", "elb", "elbv2", "iam", "rds", "sts"})
_OF_QUERIES = ("Throttling", 400, RATE_EXCEEDED)
_OF_THE_REST = ("ThrottlingException", 400, RATE_EXCEEDED)
CODES = frozenset(words[0] for words in (*_WORDS.values(), _OF_QUERIES, _OF_THE_REST))


def refusal(service: str) -> ApiError:
    """Return the service's refusal of a call that it throttles."""
    code, status, message = _WORDS.get(service) or (_OF_QUERIES if service in _QUERIED else _OF_THE_REST)
    return ApiError(code, message, status=status)


class Buckets:
    """Holds the buckets of all services; they fill by the clock `now`."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._lock = threading.Lock()
        self._left: dict[tuple[str, str], tuple[float, float]] = {}  # bucket -> (tokens, at this time)

    def take(self, service: str, operation: str, fraction: float) -> bool:
        """Take a token for this call; return False if there is none. Buckets are 1/fraction of AWS's size."""
        bucket = (service, operation)
        if bucket not in RATES:
            bucket = (service, "read" if operation.startswith(READS) else "change")
        rate = RATES.get(bucket, _OTHERS)
        most, now = max(1.0, rate.burst / fraction), self._now()
        with self._lock:
            left, since = self._left.get(bucket, (most, now))
            left = min(most, left + (now - since) * rate.per_second / fraction)
            is_taken = left >= 1
            self._left[bucket] = (left - is_taken, now)
        return is_taken

    def refill(self) -> None:
        with self._lock:
            self._left.clear()


_buckets = Buckets()


def check(service: str, operation: str) -> None:
    """Raise the service's refusal if its bucket is empty."""
    fraction = conditions.value("throttling")
    if fraction and not _buckets.take(service, operation, fraction):
        conditions.count("throttling")
        raise refusal(service)


def reset() -> None:
    _buckets.refill()
