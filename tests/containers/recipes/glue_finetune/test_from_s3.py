"""Rows and a model in the yard's S3 are read like those on a disk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("obstore")
pytest.importorskip("moto")

from slipway.containers.data.errors import DataError
from slipway.containers.data.glue.tasks import TASKS
from slipway.containers.data.glue.texts import TRAIN, open_table, read_texts
from slipway.containers.recipes.glue_finetune.pretrained import read_pretrained
from slipway.containers.runtime.errors import Refusal

BUCKET = "models"


@pytest.fixture(autouse=True)
def uploaded(s3: Any, data: Path) -> None:
    s3.create_bucket(Bucket=BUCKET)
    for folder in ("bert", "small"):
        for path in (data / folder).iterdir():
            s3.put_object(Bucket=BUCKET, Key=f"a/{folder}/{path.name}", Body=path.read_bytes())


def test_a_model_and_its_rows_are_the_same_from_s3(data: Path) -> None:
    here, there = read_pretrained(str(data / "bert")), read_pretrained(f"s3://{BUCKET}/a/bert")
    assert (there.digest, there.shape, there.words.vocabulary.entries) == (
        here.digest,
        here.shape,
        here.words.vocabulary.entries,
    )
    tables = [
        open_table(place, TASKS["mrpc"], TRAIN) for place in (f"s3://{BUCKET}/a/small", str(data / "small"))
    ]
    from_s3, from_disk = (read_texts(table, *table.pieces(1 << 30)) for table in tables)
    assert from_s3 == from_disk
    assert from_disk.labels


def test_what_is_not_in_s3_is_named() -> None:
    with pytest.raises(DataError, match=f"s3://{BUCKET}/none"):
        read_pretrained(f"s3://{BUCKET}/none")
    with pytest.raises(Refusal, match=r"has no config\.json; give a whole model directory"):
        read_pretrained(f"s3://{BUCKET}/a/small")
