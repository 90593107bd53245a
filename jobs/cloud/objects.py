"""Reads and sends single objects of S3, and reads log streams. An object that does not exist is None."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from slipway.jobs.cloud.aws import SIGN_IN, Unanswered, allow, ask, ask_all, reader, refused_upload
from slipway.jobs.words.errors import NoAnswer

_OF_UPLOADS = {
    "AccessDenied": allow("s3:PutObject", "submit"),
    "NoSuchBucket": "deploy the cluster again: its bucket is gone",
}
_PERMISSION = "s3:GetObject"  # of both operations (Service Authorization Reference, "Amazon S3")


def find_object(s3: Any, operation: str, **where: str) -> Any | None:
    """Call HeadObject or GetObject (`operation`); return None if the object does not exist.

    Raise if S3 does not answer: that is no proof that the object is missing.
    """
    answer = ask(s3, operation, **where)
    if not isinstance(answer, Unanswered):
        return answer
    # HeadObject's error has no body, so its code is the HTTP status.
    if answer.code in ("404", "NoSuchKey", "NotFound"):
        return None
    otherwise = "run the same command again"
    if answer.code == "400":
        otherwise = f"S3 does not say why; {SIGN_IN}, and see that the bucket is in the cluster's region"
    raise NoAnswer(
        f"s3://{where['Bucket']}/{where['Key']}: {operation} gave no answer: {answer.code}, "
        f"{answer.message[:200]}",
        code=answer.code,
        hint=allow(_PERMISSION, "submit") if answer.is_denied else otherwise,
        passes=answer.passes,
    )


def send_file(s3: Any, file: Path, *, bucket: str, key: str, extra: Mapping[str, object]) -> None:
    """Upload a file in as many parts as it needs; if S3 refuses it, raise NoAnswer with S3's message."""
    try:
        s3.upload_file(str(file), bucket, key, ExtraArgs=extra)
    except refused_upload() as error:
        code = str(getattr(error.__context__, "response", {}).get("Error", {}).get("Code", ""))
        raise NoAnswer(
            str(error), code=code, hint=_OF_UPLOADS.get(code, "run the same command again")
        ) from None


def find_streams(region: str, log_group: str, prefix: str) -> list[str]:
    """Return the names of the streams with this prefix, in order; none if AWS does not answer."""
    asked = {"logGroupName": log_group, "logStreamNamePrefix": prefix}
    found = ask_all(reader("logs", region), "DescribeLogStreams", "logStreams", **asked)
    return [] if isinstance(found, Unanswered) else [str(stream["logStreamName"]) for stream in found]


def last_lines(logs: Any, log_group: str, stream: str, *, events: int) -> list[str]:
    """Return the lines of a stream's last events; none if AWS does not answer."""
    answer = ask(
        logs,
        "GetLogEvents",
        logGroupName=log_group,
        logStreamName=stream,
        limit=events,
        startFromHead=False,
    )
    found = [] if isinstance(answer, Unanswered) else answer["events"]
    return [line for event in found for line in str(event["message"]).splitlines()]
