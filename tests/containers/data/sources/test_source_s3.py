"""Objects below a prefix of the yard's S3 make the rows that the same files make; each failure is a line."""

from __future__ import annotations

import os
import re
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("obstore")
pytest.importorskip("moto")

from slipway.containers.data.errors import DataError
from slipway.containers.data.rows import prepare_bert
from slipway.containers.data.rows.prepare import Share, merge, prepare
from slipway.containers.data.rows.shards import read_manifest
from slipway.containers.data.sources import source_s3
from slipway.containers.data.sources.locations import open_source
from slipway.containers.data.sources.sources import FetchSource, Source, SourceFile, local_source
from slipway.containers.data.text.documents import read_json
from tests.containers.data.conftest import MakeSettings
from tests.containers.data.failing_s3 import denying
from tests.containers.data.rows.test_prepare import command, rows_of
from tests.containers.instance_metadata import KEY_ID, instance_metadata

BUCKET = "texts"
PARTS = 4
pytestmark = pytest.mark.usefixtures("s3")


@pytest.fixture(scope="module")
def folder(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The corpus in files of several sizes and depths, with names that need quoting, and one without text."""
    folder = tmp_path_factory.mktemp("folder")
    text = corpus.read_bytes()
    names = ("a.txt", "b/c d+e%2Fü.txt", "b/z.txt", "é.txt")
    cuts = [0, 1000, 90_000, 91_000, len(text)]
    for number, name in enumerate(names):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(text[cuts[number] : cuts[number + 1]])
    (folder / "empty.txt").touch()
    return folder


@pytest.fixture
def prefix(folder: Path, s3: Any) -> str:
    """Anew for each test, which may change it."""
    s3.create_bucket(Bucket=BUCKET)
    for found in s3.list_objects_v2(Bucket=BUCKET).get("Contents", ()):
        s3.delete_object(Bucket=BUCKET, Key=found["Key"])
    for file in local_source(folder).files:
        s3.put_object(Bucket=BUCKET, Key=f"wiki/{file.name}", Body=(folder / file.name).read_bytes())
    s3.put_object(Bucket=BUCKET, Key="wiki/.hidden/x.txt", Body=b"nobody's text")
    s3.put_object(Bucket=BUCKET, Key="wiki2/x.txt", Body=b"another prefix")
    return f"s3://{BUCKET}/wiki"


@pytest.mark.parametrize("workers", [1, 2])
def test_a_prefix_makes_the_dataset_that_the_folder_makes(
    prefix: str, folder: Path, tmp_path: Path, make_settings: MakeSettings, workers: int
) -> None:
    local, remote = tmp_path / "local", tmp_path / "remote"
    prepare(local_source(folder), make_settings(), local, Share(), shards=PARTS)
    prepare(open_source(prefix), make_settings(), remote, Share(workers=workers), shards=PARTS)
    assert rows_of(remote) == rows_of(local)
    assert len(rows_of(remote)) == PARTS
    assert read_manifest(remote).digest == read_manifest(local).digest


def test_the_manifest_names_the_source_and_its_versions(
    prefix: str, tmp_path: Path, make_settings: MakeSettings, s3: Any
) -> None:
    out = tmp_path / "out"
    prepare(open_source(f"{prefix}/"), make_settings(), out, Share(), shards=2)
    etag = s3.head_object(Bucket=BUCKET, Key="wiki/a.txt")["ETag"]
    listed = read_json(out / "input.json")
    assert listed["files"][0] == ["a.txt", 1000, etag]
    assert read_manifest(out).origin.location == listed["location"] == prefix
    assert read_manifest(out).origin.version == listed["version"]


def test_objects_are_taken_by_name_or_one_alone(prefix: str) -> None:
    assert [file.name for file in open_source(prefix, ("b/z.txt", "a.txt")).files] == ["a.txt", "b/z.txt"]
    alone = open_source(f"{prefix}/b/z.txt")
    assert [file.name for file in alone.files] == ["z.txt"]
    assert len(alone.read("z.txt", 0, 7)) == 7


class Counting:
    """Fetch it, and return what came."""

    def __init__(self, source: Source) -> None:
        assert isinstance(source, FetchSource)
        self.bytes = 0
        self._fetch = source.fetch
        self.source = FetchSource(source.files, self.fetch, source.location, source.reads_at_once)

    def fetch(self, file: Any, start: int, stop: int) -> bytes:
        self.bytes += stop - start
        return self._fetch(file, start, stop)


def test_a_repeated_run_reads_only_the_text_of_what_is_missing(
    prefix: str, corpus: Path, tmp_path: Path, make_settings: MakeSettings
) -> None:
    """And the few places where shards begin."""
    out = tmp_path / "out"
    whole = Counting(open_source(prefix))
    prepare(whole.source, make_settings(), out, Share(), shards=PARTS)
    (out / "shard-00001.hdf5").unlink()
    again = Counting(open_source(prefix))
    prepare(again.source, make_settings(), out, Share(), shards=PARTS)
    one_shard = corpus.stat().st_size / PARTS
    assert whole.bytes - again.bytes > (PARTS - 1.2) * one_shard
    assert merge(out, with_digests=True).rows


def test_objects_that_changed_between_runs_are_read_again_and_only_their_shards_made(
    prefix: str, tmp_path: Path, make_settings: MakeSettings, s3: Any, folder: Path
) -> None:
    out = tmp_path / "out"
    prepare(open_source(prefix), make_settings(), out, Share(), shards=PARTS)
    before = {path.name: path.stat().st_ino for path in out.glob("*.hdf5")}
    text = (folder / "a.txt").read_bytes()
    s3.put_object(Bucket=BUCKET, Key="wiki/a.txt", Body=text.replace(b"a", b"e", 1))
    manifest = prepare(open_source(prefix), make_settings(), out, Share(), shards=PARTS)
    after = {path.name: path.stat().st_ino for path in out.glob("*.hdf5")}
    assert [name for name in before if before[name] != after[name]] == ["shard-00000.hdf5"]
    assert manifest is not None
    assert manifest.origin.version == read_json(out / "input.json")["version"]


def test_nodes_that_saw_different_versions_make_no_dataset(
    prefix: str, tmp_path: Path, make_settings: MakeSettings, s3: Any, folder: Path
) -> None:
    out = tmp_path / "out"
    prepare(open_source(prefix), make_settings(), out, Share(array_index=0, array_size=2), shards=PARTS)
    s3.put_object(Bucket=BUCKET, Key="wiki/a.txt", Body=(folder / "a.txt").read_bytes().upper())
    prepare(open_source(prefix), make_settings(), out, Share(array_index=1, array_size=2), shards=PARTS)
    with pytest.raises(DataError, match=rf"2 shards .* made from another version of {prefix}: 1, 3; run"):
        merge(out)


@pytest.mark.parametrize("change", ["other text", "gone"])
def test_an_object_that_changes_during_the_run_is_refused_by_name(
    prefix: str, tmp_path: Path, make_settings: MakeSettings, s3: Any, change: str
) -> None:
    source = open_source(prefix)
    if change == "gone":
        s3.delete_object(Bucket=BUCKET, Key="wiki/a.txt")
        told = rf"^{prefix}/a.txt: it does not exist"
    else:
        s3.put_object(Bucket=BUCKET, Key="wiki/a.txt", Body=b"x" * 1000)
        told = rf"^{prefix}/a.txt: it changed since the run began: it has another ETag; run the same"
    with pytest.raises(DataError, match=told):
        prepare(source, make_settings(), tmp_path / "out", Share(workers=2), shards=PARTS)


@pytest.mark.parametrize(
    ("place", "told"),
    [
        ("s3://no-such-bucket/wiki", "s3://no-such-bucket/wiki: the bucket does not exist"),
        (f"s3://{BUCKET}/nothing", f"s3://{BUCKET}/nothing: it does not exist; look at what there is"),
        ("s3://Not_A_Bucket/wiki", "names no bucket; write s3://bucket/prefix"),
        ("s3:///wiki", "names no bucket"),
        (f"s3://{BUCKET}/../wiki", "leads out of its folder"),
        (f"s3://{BUCKET}//wiki", "leads out of its folder, or has an empty part"),
    ],
)
def test_a_place_that_is_not_there_is_one_line(
    prefix: str,
    vocabulary_file: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    place: str,
    told: str,
) -> None:
    arguments = command(Path("unused"), vocabulary_file, tmp_path / "out", "--input", place)[3:]
    assert prepare_bert.main(arguments) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: ")
    assert told in line


@pytest.mark.parametrize("key", ["wiki/../../etc/passwd", "wiki//a.txt", "wiki/./a.txt"])
def test_a_key_that_leads_out_is_refused(prefix: str, s3: Any, key: str) -> None:
    s3.put_object(Bucket=BUCKET, Key=key, Body=b"text")
    with pytest.raises(DataError, match=r"use keys without '\.\.', '\.' or '//'|leads out of its folder"):
        open_source(prefix)


def test_another_endpoint_must_be_encrypted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://me:secret@minio.example.com:9000")
    with pytest.raises(
        DataError, match=r"AWS_ENDPOINT_URL_S3 is http://minio\.example\.com, which is not enc"
    ):
        open_source("s3://texts/wiki")


def test_a_forked_process_is_refused_instead_of_hanging(prefix: str) -> None:
    source = open_source(prefix)
    assert len(source.read("a.txt", 5, 6)) == 6
    pid = os.fork()
    if not pid:
        try:
            source.read("a.txt", 0, 1)
        except DataError as error:
            os._exit(40 if "spawn" in str(error) else 41)
        finally:
            os._exit(42)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 40


@pytest.mark.parametrize(
    ("status", "code", "told"),
    [
        (403, "AccessDenied", "access is denied; allow s3:ListBucket and s3:GetObject"),
        (403, "InvalidAccessKeyId", "AWS does not know the access key"),
        (400, "ExpiredToken", "the credentials have expired"),
        (301, "PermanentRedirect", "the bucket is in another region; set AWS_REGION"),
        (400, "AuthorizationHeaderMalformed", "the bucket is in another region"),
        (400, "SomethingNew", "the request failed: SomethingNew; run the same command again"),
    ],
)
def test_a_refusal_is_told_in_words(
    monkeypatch: pytest.MonkeyPatch, status: int, code: str, told: str
) -> None:
    with denying(monkeypatch, status, code), pytest.raises(DataError, match=re.escape(told)) as refusal:
        open_source("s3://texts/wiki")
    assert str(refusal.value).startswith("s3://texts/wiki")
    assert "hidden" not in str(refusal.value)


def test_the_owner_of_the_bucket_is_asked_for_in_what_is_signed(monkeypatch: pytest.MonkeyPatch) -> None:
    """S3 refuses a header of its own that is not signed, so a listing has none."""
    fetch = source_s3.Fetch
    file = SourceFile("a.txt", 9, '"tag"')
    with denying(monkeypatch, 403, "AccessDenied") as seen:
        bucket = source_s3.Bucket("texts", source_s3.endpoint_of(os.environ), "123456789012")
        for read in (
            lambda: open_source("s3://texts/wiki", bucket_owner=bucket.owner),
            lambda: open_source("s3://texts/wiki", ("a.txt",), bucket.owner),
            lambda: fetch(bucket, "wiki/")(file, 0, 9),
        ):
            with pytest.raises(DataError, match="access is denied"):
                read()
    owner = "x-amz-expected-bucket-owner"
    assert [headers.get(owner) for headers in seen] == [None, "123456789012", "123456789012"]
    assert [owner in headers["authorization"] for headers in seen] == [False, True, True]
    assert seen[-1]["if-match"] == '"tag"'


def test_keys_come_from_the_metadata_service_that_the_environment_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A host of the yard that has no network of its own has it at another address than every machine's."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    source_s3.opened.cache_clear()
    with instance_metadata() as metadata, denying(monkeypatch, 403, "AccessDenied") as seen:
        metadata.give_keys()
        monkeypatch.setenv(source_s3.METADATA_VARIABLE, metadata.endpoint)
        with pytest.raises(DataError, match="access is denied"):
            open_source("s3://texts/wiki")
    source_s3.opened.cache_clear()
    assert f"Credential={KEY_ID}/" in seen[0]["authorization"]


def test_keys_that_are_about_to_expire_are_asked_for_again_over_a_metadata_service_that_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """F29."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    soon = datetime.now(UTC) + timedelta(minutes=1)
    source_s3.opened.cache_clear()
    with instance_metadata() as metadata, denying(monkeypatch, 403, "AccessDenied") as seen:
        metadata.give_keys(f"{soon:%Y-%m-%dT%H:%M:%SZ}")
        metadata.failures = [503]
        monkeypatch.setenv(source_s3.METADATA_VARIABLE, metadata.endpoint)
        deadline = time.monotonic() + 10
        while len(keys := {each["authorization"].partition("/")[0] for each in seen}) < 2:
            assert time.monotonic() < deadline, keys
            with pytest.raises(DataError, match="access is denied"):
                open_source("s3://texts/wiki")
    source_s3.opened.cache_clear()
    assert {key.rpartition("=")[2] for key in keys} == {KEY_ID, f"{KEY_ID}0002"}


def test_an_owner_is_an_account() -> None:
    with pytest.raises(DataError, match="--bucket-owner is 'me'; give the 12 digits"):
        open_source("s3://texts/wiki", bucket_owner="me")
