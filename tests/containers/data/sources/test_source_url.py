"""Text behind a URL makes the rows that the file makes, or ends with one line that holds no secret."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("urllib3")

from slipway.containers.data.errors import DataError
from slipway.containers.data.rows import prepare_bert
from slipway.containers.data.rows.prepare import Share, prepare
from slipway.containers.data.rows.shards import read_manifest
from slipway.containers.data.sources import source_url
from slipway.containers.data.sources.locations import open_source
from tests.containers.data.conftest import MakeSettings
from tests.containers.data.rows.test_prepare import command, rows_of
from tests.containers.data.text_server import Served, forget_proxies, serving_text

SECRET = "s3cret-Signature"


@pytest.fixture
def served(corpus: Path) -> Iterator[Served]:
    with serving_text(Served(corpus.read_bytes())) as running:
        yield running


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_url, "RETRIES", source_url.RETRIES.new(backoff_factor=0))
    monkeypatch.setenv("SLIPWAY_PRIVATE_HOSTS", "127.0.0.1, localhost")
    forget_proxies(monkeypatch)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_url_makes_the_rows_that_the_file_makes(
    served: Served, dataset: Path, tmp_path: Path, make_settings: MakeSettings, workers: int
) -> None:
    out = tmp_path / "out"
    prepare(open_source(f"{served.url}/a.txt"), make_settings(), out, Share(workers=workers), shards=3)
    assert rows_of(out) == rows_of(dataset)
    assert read_manifest(out).origin.location == f"{served.url}/a.txt"
    assert read_manifest(out).digest != ""


def test_an_answer_that_breaks_off_or_a_busy_server_is_asked_again(served: Served) -> None:
    served.statuses = [503, 500]
    source = open_source(f"{served.url}/a.txt")
    served.cut_short = 2
    assert source.read("a.txt", 10, 1000) == served.text[10:1010]


def test_a_user_and_a_signature_are_sent_and_never_shown(
    served: Served, vocabulary_file: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    url = f"http://me:{SECRET}@127.0.0.1:{served.port}/a.txt?X-Amz-Signature={SECRET}"
    out = tmp_path / "out"
    arguments = command(Path("unused"), vocabulary_file, out, "--input", url, "--shards", "3")[3:]
    assert prepare_bert.main([*arguments, "--workers", "2"]) == 0
    assert served.requests[-1][0] == f"/a.txt?X-Amz-Signature={SECRET}"
    assert served.requests[-1][1]["authorization"].startswith("Basic ")
    served.etag = '"two"'
    assert prepare_bert.main([*arguments, "--output", str(tmp_path / "other"), "--shards", "0"]) == 1
    served.statuses = [403]
    assert prepare_bert.main(arguments) == 1
    shown = "".join(capfd.readouterr())
    assert f"error: {served.url}/a.txt: reading it is denied" in shown
    kept = "".join(path.read_text() for path in out.rglob("*.json"))
    assert f"{served.url}/a.txt" in kept
    assert SECRET not in shown + kept + repr(open_source(url))


@pytest.mark.parametrize("knows_conditions", [True, False])
def test_text_that_changes_while_it_is_read_is_refused_by_name(
    served: Served, knows_conditions: bool
) -> None:
    served.knows_conditions = knows_conditions
    source = open_source(f"{served.url}/a.txt")
    served.etag, served.text = '"two"', served.text.upper()
    with pytest.raises(DataError, match=r"/a.txt: it changed since the run began; run the same command"):
        source.read("a.txt", 0, 10)


def test_a_weak_tag_is_compared_and_not_sent(served: Served) -> None:
    """It would never match: RFC 9110, 13.1.1."""
    served.etag = 'W/"one"'
    source = open_source(f"{served.url}/a.txt")
    assert source.read("a.txt", 0, 4) == served.text[:4]
    served.etag = 'W/"two"'
    with pytest.raises(DataError, match="it changed"):
        source.read("a.txt", 0, 10)


def test_a_redirect_stays_with_its_host(served: Served) -> None:
    served.redirects = {"/latest": "/a.txt", "/away": f"http://localhost:{served.port}/a.txt?token={SECRET}"}
    served.redirects["/round"] = "/round"
    source = open_source(f"{served.url}/latest")
    assert (source.location, source.files[0].name) == (f"{served.url}/a.txt", "a.txt")
    with pytest.raises(DataError, match="/away redirects to another host, http://localhost:") as refusal:
        open_source(f"{served.url}/away")
    assert SECRET not in str(refusal.value)
    with pytest.raises(DataError, match="redirects too often"):
        open_source(f"{served.url}/round")


def test_a_server_without_ranges_is_refused_before_it_sends_all(served: Served) -> None:
    served.knows_ranges = False
    with pytest.raises(DataError, match="does not answer Range requests; download it, and give the file"):
        open_source(f"{served.url}/a.txt")


@pytest.mark.parametrize(
    ("status", "told"),
    [
        (401, "the server wants a login; write https://user:password@host/file"),
        (403, "reading it is denied; a signed URL may have expired"),
        (404, "there is no such file"),
        (416, "it is empty"),
        (418, "the server answers 418"),
    ],
)
def test_a_refusal_is_told_in_words(served: Served, status: int, told: str) -> None:
    served.statuses = [status]
    with pytest.raises(DataError, match=rf"^http://127\.0\.0\.1:{served.port}/a.txt: {told}"):
        open_source(f"{served.url}/a.txt?{SECRET}")


def test_text_of_no_known_version_is_refused(served: Served) -> None:
    served.etag = None
    with pytest.raises(DataError, match="has neither ETag nor Last-Modified"):
        open_source(f"{served.url}/a.txt")


def test_nobody_there_is_one_line_without_the_query() -> None:
    with serving_text(Served(b"")) as gone:
        url = gone.url
    with pytest.raises(DataError, match=r"/a.txt: it cannot be reached; check the address") as refusal:
        open_source(f"{url}/a.txt?{SECRET}")
    assert SECRET not in str(refusal.value)


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("http://example.com/a.txt", "is read without encryption"),
        ("http://127.0.0.1.example.com/a.txt", "is read without encryption"),
        ("https:///a.txt", "is not a URL"),
        ("https://host:port/a.txt", "is not a URL"),
        ("https://host/a b.txt", "is not a URL"),
        ("https://host/a\nb.txt", "is not a URL"),
        ("gopher://host/a.txt", "begins with gopher://"),
        ("file:///etc/passwd", "begins with file://"),
    ],
)
def test_an_address_that_cannot_be_read_is_refused_unasked(url: str, told: str) -> None:
    with pytest.raises(DataError) as refusal:
        open_source(url)
    assert told in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_a_name_that_leads_out_is_refused(served: Served) -> None:
    with pytest.raises(DataError, match="leads out of its folder"):
        open_source(f"{served.url}/%2e%2e")
    with pytest.raises(DataError, match="a URL is one file"):
        open_source(f"{served.url}/a.txt", ("b.txt",))
