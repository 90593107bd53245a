"""Rows and a model in S3 are read as those on a disk are, in the yard's S3."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("obstore")
pytest.importorskip("moto")

from containers.data import source_s3
from containers.data.errors import DataError
from containers.data.glue_tasks import TASKS
from containers.data.glue_texts import TRAIN, read_texts
from containers.recipes.glue_finetune.pretrained import read_pretrained
from containers.runtime.errors import Refusal
from jobs.aws import client_at
from jobs.yard import process
from jobs.yard.endpoint import ACCESS_KEY_ID, SECRET_ACCESS_KEY

BUCKET = "models"


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    home = tmp_path_factory.mktemp("yard") / "home"
    yield process.up(folder=home).state.endpoint
    process.down(folder=home)


@pytest.fixture(autouse=True)
def uploaded(endpoint: str, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ENDPOINT_URL_S3", "AWS_SESSION_TOKEN", "HTTP_PROXY", "http_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY_ID)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET_ACCESS_KEY)
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.setattr(source_s3, "RETRIES", {"max_retries": 1})
    source_s3.opened.cache_clear()
    s3 = client_at(endpoint, "s3", "us-east-1", ACCESS_KEY_ID, SECRET_ACCESS_KEY)
    s3.create_bucket(Bucket=BUCKET)
    for folder in ("bert", "small"):
        for path in (data / folder).iterdir():
            s3.put_object(Bucket=BUCKET, Key=f"a/{folder}/{path.name}", Body=path.read_bytes())


def test_a_model_and_its_rows_are_the_same_from_s3(data: Path) -> None:
    here, there = read_pretrained(str(data / "bert")), read_pretrained(f"s3://{BUCKET}/a/bert")
    assert (there.digest, there.shape, there.vocabulary.entries) == (
        here.digest,
        here.shape,
        here.vocabulary.entries,
    )
    texts = read_texts(f"s3://{BUCKET}/a/small", TASKS["mrpc"], TRAIN)
    assert texts == read_texts(str(data / "small"), TASKS["mrpc"], TRAIN)


def test_what_is_not_in_s3_is_named() -> None:
    with pytest.raises(DataError, match=f"s3://{BUCKET}/none"):
        read_pretrained(f"s3://{BUCKET}/none")
    with pytest.raises(Refusal, match=r"has no config\.json and no vocab\.txt and no model\.safetensors"):
        read_pretrained(f"s3://{BUCKET}/a/small")
