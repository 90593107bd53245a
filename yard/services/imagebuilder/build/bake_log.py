"""What a bake says becomes lines of its CloudWatch stream, at once; Image Builder writes them at the end."""

from __future__ import annotations

import logging
import time

from slipway.yard.endpoint import ACCOUNT

log = logging.getLogger(__name__)

LONGEST_EVENT = 256 * 1024 - 26


class BakeLog:
    """`stream` is the version and the build, as AWS names it: 1.0.0/1."""

    def __init__(self, group: str, stream: str, region: str) -> None:
        self._group, self._stream, self._region = group, stream, region

    def open(self) -> None:
        """Image Builder makes both itself."""
        from moto.logs.models import logs_backends

        backend = logs_backends[ACCOUNT][self._region]
        if self._group not in backend.groups:
            backend.create_log_group(self._group, {})
        if self._stream not in backend.groups[self._group].streams:
            backend.create_log_stream(self._group, self._stream)

    def say(self, text: str) -> None:
        from moto.logs.models import logs_backends

        if not text:
            return
        event = {"timestamp": int(time.time() * 1000), "message": text[:LONGEST_EVENT]}
        try:
            logs_backends[ACCOUNT][self._region].put_log_events(self._group, self._stream, [event])
        except Exception:  # the group may go while the bake runs; the bake goes on, as on AWS
            log.warning("cannot write the log stream %s of %s", self._stream, self._group, exc_info=True)
