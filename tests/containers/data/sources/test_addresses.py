"""A job's URL leads to public machines alone, however it is spelled and wherever its name resolves to."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("urllib3")

from slipway.containers.data.errors import DataError
from slipway.containers.data.sources import source_url
from slipway.containers.data.sources.locations import VARIABLE, check_address, open_source
from slipway.containers.recipes.prepare_bert.config import decode_arguments
from slipway.containers.training.settings import InvalidSettings
from tests.containers.data.text_server import Served, forget_proxies, serving_text

LINK_LOCAL = "a link-local address such as the metadata service's; give another host"
PRIVATE = "which is not public; give a public address"
# BI-117, in the spellings that some resolver or library reads as the same machine.
REFUSED = [
    ("https://169.254.169.254/latest/meta-data/", LINK_LOCAL),
    ("https://169.254.169.254./latest/", LINK_LOCAL),
    ("https://169.254.170.2/v2/credentials", LINK_LOCAL),
    ("https://2852039166/latest/", LINK_LOCAL),
    ("https://0xA9FEA9FE/latest/", LINK_LOCAL),
    ("https://0251.0376.0251.0376/latest/", LINK_LOCAL),
    ("https://169.254.43518/latest/", LINK_LOCAL),
    ("https://user:word@169.254.169.254:443/", LINK_LOCAL),
    ("https://[fd00:ec2::254]/latest/", LINK_LOCAL),
    ("https://[fe80::1]/", LINK_LOCAL),
    ("https://[::ffff:169.254.169.254]/", LINK_LOCAL),
    ("https://[64:ff9b::169.254.169.254]/", LINK_LOCAL),
    ("https://[2002:a9fe:a9fe::1]/", LINK_LOCAL),
    ("https://127.0.0.1/a.txt", PRIVATE),
    ("http://127.0.0.1:8080/a.txt", PRIVATE),
    ("http://localhost:8080/a.txt", PRIVATE),
    ("https://LOCALHOST./a.txt", PRIVATE),
    ("https://a.localhost/a.txt", PRIVATE),
    ("https://127.1/a.txt", PRIVATE),
    ("https://0/a.txt", PRIVATE),
    ("https://[::1]/a.txt", PRIVATE),
    ("https://[::]/a.txt", PRIVATE),
    ("https://[::127.0.0.1]/a.txt", PRIVATE),
    ("https://10.0.0.7/a.txt", PRIVATE),
    ("https://172.31.255.1/a.txt", PRIVATE),
    ("https://192.168.1.1/a.txt", PRIVATE),
    ("https://100.64.0.1/a.txt", PRIVATE),
    ("https://[fc00::1]/a.txt", PRIVATE),
    ("https://224.0.0.1/a.txt", PRIVATE),
    ("http://169.254.169.254/latest/meta-data/", "is read without encryption"),
    ("file:///etc/shadow", "begins with file://"),
    ("file:/etc/shadow", "begins with file:"),
    ("FILE:etc/shadow", "begins with FILE:"),
    ("http:169.254.169.254", "begins with http:"),
    ("HTTPS://example.com/a.txt", "begins with HTTPS://"),
    ("ftp://example.com/a.txt", "begins with ftp://"),
]


@pytest.fixture(autouse=True)
def _nothing_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_url, "RETRIES", source_url.RETRIES.new(total=0))
    monkeypatch.delenv(VARIABLE, raising=False)
    forget_proxies(monkeypatch)


@pytest.fixture
def served() -> Iterator[Served]:
    with serving_text(Served(b"text")) as running:
        yield running


@pytest.mark.parametrize(("url", "said"), REFUSED)
def test_a_private_machine_is_refused_in_every_spelling(url: str, said: str) -> None:
    with pytest.raises(DataError) as refused:
        open_source(url)
    assert said in str(refused.value)


@pytest.mark.parametrize("url", [url for url, _ in REFUSED])
def test_a_job_that_would_read_a_private_machine_is_refused_before_it_is_sent(url: str) -> None:
    with pytest.raises(InvalidSettings):
        decode_arguments([f"input={url}", "vocabulary=vocab.txt"])


@pytest.mark.parametrize(
    "url", ["https://8.8.8.8/a.txt", "https://[2600:1f18::1]/a.txt", "https://a.example/b"]
)
def test_a_public_machine_may_be_named(url: str) -> None:
    check_address(url)
    decode_arguments([f"input={url}", "vocabulary=vocab.txt"])


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_a_name_that_resolves_to_a_private_machine_is_refused_before_anything_is_sent(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with listening(address) as server:
        answer_names_with(address, monkeypatch)
        with pytest.raises(DataError, match=rf"^text\.example is {address}, which is not public"):
            open_source(f"https://text.example:{server.getsockname()[1]}/a.txt")
        peer, _ = server.accept()
        with peer:
            assert peer.recv(1) == b""


def test_a_redirect_to_the_metadata_service_is_refused(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, "127.0.0.1")
    for place in (
        "https://169.254.169.254/latest/",
        "https://10.0.0.1/",
        "//2852039166/",
        "file:///etc/shadow",
    ):
        served.redirects = {"/a.txt": place}
        with pytest.raises(DataError, match=r"link-local|not public|without encryption|is not a URL"):
            open_source(f"{served.url}/a.txt")


def test_a_mirror_of_ones_own_is_read_where_the_variable_names_it(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(DataError, match=f"name its host in {VARIABLE}"):
        open_source(f"{served.url}/a.txt")
    monkeypatch.setenv(VARIABLE, "mirror.example, 127.0.0.1")
    assert open_source(f"{served.url}/a.txt").read("a.txt", 0, 4) == b"text"


def test_no_variable_opens_the_metadata_service(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "169.254.169.254, fd00:ec2::254, 127.0.0.1, 2852039166")
    for host in ("169.254.169.254", "[fd00:ec2::254]", "2852039166"):
        with pytest.raises(DataError, match="no setting allows this one"):
            open_source(f"https://{host}/")


def listening(address: str) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    server = socket.socket(family)
    server.bind((address, 0))
    server.listen()
    return server


def answer_names_with(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Answer as a name server that somebody else controls."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET

    def getaddrinfo(_host: str, port: int, *_: Any, **__: Any) -> list[tuple[Any, ...]]:
        return [(family, socket.SOCK_STREAM, 6, "", (address, port))]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
