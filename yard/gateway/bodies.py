"""Check a body against its hash while it is read, so that no upload is held in memory twice."""

from __future__ import annotations

import hashlib
import hmac
import io
from typing import IO, Any

from slipway.yard.errors import ApiError


def checked(environ: dict[str, Any], sha256: str) -> IO[bytes]:
    """The request's body. Whoever reads it to its end meets an ApiError there unless it has this hash."""
    has_end = bool(environ.get("wsgi.input_terminated"))  # chunked: there is an end, and no length
    length = None if has_end else int(environ.get("CONTENT_LENGTH") or 0)
    stream = _Checked(environ["wsgi.input"], sha256, length)
    if length == 0:
        stream.judge()
    return stream  # type: ignore[return-value]  # a raw stream has all that WSGI asks of one


class _Checked(io.RawIOBase):
    def __init__(self, source: IO[bytes], sha256: str, length: int | None) -> None:
        self._source, self._wanted, self._left = source, sha256, length
        self._hash = hashlib.sha256()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        read = self._source.readinto(buffer)  # type: ignore[attr-defined]  # both of werkzeug's streams have it
        self._hash.update(memoryview(buffer)[:read])
        if self._left is not None:
            self._left -= read
        if self._left == 0 or not read:
            self.judge()
        return int(read)

    def judge(self) -> None:
        if not hmac.compare_digest(self._hash.hexdigest(), self._wanted):
            raise ApiError(
                "XAmzContentSHA256Mismatch",
                "The provided 'x-amz-content-sha256' header does not match what was computed.",
            )
