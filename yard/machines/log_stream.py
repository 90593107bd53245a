"""Writes a node's output to its CloudWatch log stream, up to the last line before it died."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Mapping
from typing import Any

from slipway.yard.moto_backends import moto_backend, moto_errors

log = logging.getLogger(__name__)

DEFAULT_GROUP = "/aws/batch/job"  # Batch makes only this group itself
READ_BYTES = 1 << 18
_making = threading.Lock()
LARGEST_EVENT_BYTES = 256 * 1024 - 26  # PutLogEvents' limit, less CloudWatch's overhead per event


def place(container: Mapping[str, Any], definition_name: str, task_id: str) -> tuple[str, str]:
    """Return the log group and stream, named as AWS Batch names them."""
    options = (container.get("logConfiguration") or {}).get("options") or {}
    prefix = options.get("awslogs-stream-prefix", definition_name)
    return options.get("awslogs-group", DEFAULT_GROUP), f"{prefix}/default/{task_id}"


def create(group: str, stream: str, region: str) -> str:
    """Make the stream; return why it could not be made, or ""."""
    backend = moto_backend("logs", region)
    if group == DEFAULT_GROUP and group not in backend.groups:
        backend.create_log_group(group, {})
    if group not in backend.groups:
        return f"failed to create Cloudwatch log stream: the log group {group} does not exist"
    backend.create_log_stream(group, stream)
    return ""


def make(group: str, stream: str, region: str) -> None:
    """Make the group and the stream if they are missing, as a service does for its own log."""
    backend = moto_backend("logs", region)
    with _making:
        if group not in backend.groups:
            backend.create_log_group(group, {})
        if stream not in backend.groups[group].streams:
            backend.create_log_stream(group, stream)


def follow(descriptor: int, group: str, stream: str, region: str) -> threading.Thread:
    """Write the output to the stream, on a thread, until every writer has closed it."""
    thread = threading.Thread(target=_follow, args=(descriptor, group, stream, region), daemon=True)
    thread.start()
    return thread


def _follow(descriptor: int, group: str, stream: str, region: str) -> None:
    rest = b""
    with os.fdopen(descriptor, "rb", buffering=0) as output:
        while chunk := output.read(READ_BYTES):
            *lines, rest = (rest + chunk).split(b"\n")
            while len(rest) > LARGEST_EVENT_BYTES:
                lines, rest = [*lines, rest[:LARGEST_EVENT_BYTES]], rest[LARGEST_EVENT_BYTES:]
            put(lines, group, stream, region)
    put([rest], group, stream, region)


def put(lines: list[bytes], group: str, stream: str, region: str) -> None:
    """Write one event for each line that is not empty."""
    now_ms = int(time.time() * 1000)
    texts = (line.decode(errors="replace").rstrip("\r") for line in lines)
    events = [{"timestamp": now_ms, "message": text} for text in texts if text]
    if not events:
        return
    try:
        moto_backend("logs", region).put_log_events(group, stream, events)
    except moto_errors():  # the group may be deleted while the job runs; as on AWS, the job continues
        log.warning("cannot write the log stream %s of %s", stream, group, exc_info=True)
