"""A web server for one text on 127.0.0.1, with each fault that a test asks for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest

from slipway.containers.data.sources import source_url
from tests.local_server import QuietHandler, serving


def forget_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask servers directly, over connections of this test's own."""
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    source_url.connections.cache_clear()


@dataclass(slots=True)
class Served:
    """Hold the server's text and the requests that it got. Tests change it while it runs."""

    text: bytes
    etag: str | None = '"one"'
    knows_ranges: bool = True
    knows_conditions: bool = True
    statuses: list[int] = field(default_factory=list)  # errors to answer first, one for each request
    redirects: dict[str, str] = field(default_factory=dict)  # path to Location
    cut_short: int = 0  # the number of answers that break off
    url: str = ""
    requests: list[tuple[str, dict[str, str]]] = field(default_factory=list)

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    def ranges(self) -> list[str]:
        return [headers["range"] for _, headers in self.requests]


@contextmanager
def serving_text(served: Served) -> Iterator[Served]:
    with serving(type("Bound", (Handler,), {"served": served})) as served.url:
        yield served


class Handler(QuietHandler):
    served: Served

    def do_GET(self) -> None:
        served = self.served
        served.requests.append((self.path, {name.lower(): value for name, value in self.headers.items()}))
        place = self.path.partition("?")[0]
        if served.statuses:
            self.answer(served.statuses.pop(0), b"")
        elif place in served.redirects:
            self.answer(302, b"", {"Location": served.redirects[place]})
        elif served.knows_conditions and self.headers.get("If-Match", served.etag) != served.etag:
            self.answer(412, b"")
        elif served.knows_ranges:
            self.stretch()
        else:
            self.answer(200, served.text)

    def stretch(self) -> None:
        text = self.served.text
        first, _, last = self.headers["Range"].removeprefix("bytes=").partition("-")
        start, stop = int(first), min(int(last) + 1, len(text))
        if start >= len(text):
            self.answer(416, b"")
        else:
            place = f"bytes {start}-{stop - 1}/{len(text)}"
            self.answer(206, text[start:stop], {"Content-Range": place})

    def answer(self, status: int, body: bytes = b"", headers: Mapping[str, str] | None = None) -> None:
        tag = {"ETag": self.served.etag} if self.served.etag else {}
        self.head(status, len(body), {**tag, **(headers or {})})
        if self.served.cut_short and len(body) > 1:
            self.served.cut_short -= 1
            self.wfile.write(body[: len(body) // 2])
            self.close_connection = True
        else:
            self.wfile.write(body)
