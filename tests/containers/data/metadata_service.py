"""An instance metadata service at an address of its own, which gives a role's keys to whoever has a token."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

KEY_ID = "OFTHEROLE"
_ROLES = "/latest/meta-data/iam/security-credentials/"
_KEYS = {
    "Code": "Success",
    "Type": "AWS-HMAC",
    "AccessKeyId": KEY_ID,
    "SecretAccessKey": "secret",
    "Token": "token",
    "Expiration": "2099-01-01T00:00:00Z",
    "LastUpdated": "2026-01-01T00:00:00Z",
}


class _Service(BaseHTTPRequestHandler):
    failures: list[int]  # statuses, answered first
    expires: str
    given = 0

    def do_PUT(self) -> None:
        self._answer("a-token")

    def do_GET(self) -> None:
        if self.failures:
            self.send_response(self.failures.pop(0))
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        assert self.headers["X-aws-ec2-metadata-token"] == "a-token"
        if self.path == _ROLES:
            self._answer("role")
            return
        type(self).given += 1
        number = f"{self.given:04}" if self.given > 1 else ""
        self._answer(json.dumps(_KEYS | {"AccessKeyId": KEY_ID + number, "Expiration": self.expires}))

    def _answer(self, text: str) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_: object) -> None:
        """The test says what matters."""


@contextmanager
def metadata_service(expires: str = str(_KEYS["Expiration"]), failures: Sequence[int] = ()) -> Iterator[str]:
    """Its address. Each time that it is asked for keys it gives others, KEY_ID first."""
    service = type("Service", (_Service,), {"expires": expires, "failures": list(failures)})
    server = ThreadingHTTPServer(("127.0.0.1", 0), service)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    thread.join()
    server.server_close()
