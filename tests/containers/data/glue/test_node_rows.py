"""The rows of a task are made once on each node, in parts; every rank maps them into memory."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

from slipway.containers.data.errors import DataError
from slipway.containers.data.glue import node_rows as made_rows
from slipway.containers.data.glue.node_rows import EncodedRows, Examples, node_rows
from slipway.containers.data.glue.tasks import TASKS
from slipway.containers.data.glue.texts import TRAIN, Texts, open_table, read_texts
from slipway.containers.data.glue.tokens import WordPieces
from slipway.containers.data.samples.model_sample import sample_vocabulary
from slipway.containers.data.samples.texts import write_task
from slipway.containers.runtime.contract.launchers import read_contract

ROWS = 60
ALONE = read_contract({})


@pytest.fixture(autouse=True)
def of_this_test_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    monkeypatch.setattr(made_rows, "STRETCH_BYTES", 1000)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_task(tmp_path / "mrpc", "mrpc", train_rows=ROWS)
    return tmp_path / "mrpc"


class Counted(WordPieces):
    """Count the rows that were made, and end at a row if that is asked for."""

    made: ClassVar[list[int]] = []
    ends_after = 1 << 30

    def encode(self, texts: Texts) -> EncodedRows:
        if sum(self.made) > self.ends_after:
            raise KeyboardInterrupt
        self.made.append(len(texts.labels))
        return super().encode(texts)


@pytest.fixture
def encoder(monkeypatch: pytest.MonkeyPatch) -> Counted:
    monkeypatch.setattr(Counted, "made", [])
    return Counted(vocabulary=sample_vocabulary(), is_cased=False, longest=32)


def opened(folder: Path, encoder: WordPieces, rank: int = 0, world: int = 1) -> Examples:
    contract = replace(ALONE, local_rank=rank, rank=rank, local_world=world, world=world)
    return node_rows(open_table(str(folder), TASKS["mrpc"], TRAIN), encoder, contract)


def test_the_ranks_of_a_node_make_each_stretch_once_and_map_all(folder: Path, encoder: Counted) -> None:
    with ThreadPoolExecutor(2) as node:
        found = list(node.map(lambda rank: opened(folder, encoder, rank, 2), range(2)))
    assert sum(encoder.made) == ROWS
    assert len(encoder.made) > 3
    table = open_table(str(folder), TASKS["mrpc"], TRAIN)
    pieces = WordPieces(vocabulary=sample_vocabulary(), is_cased=False, longest=32)
    whole = pieces.encode(read_texts(table, *table.pieces(1 << 30)))
    for examples in found:
        assert isinstance(examples.ids.base, np.memmap)
        assert examples.ids.tolist() == whole.ids.tolist()
        assert examples.lengths.tolist() == whole.lengths.tolist()
        assert examples.firsts.tolist() == whole.firsts.tolist()
        assert examples.labels.tolist() == whole.labels.tolist()
    assert found[0].digest == found[1].digest
    opened(folder, encoder)
    assert sum(encoder.made) == ROWS, "the next attempt on the node maps them"


def test_what_was_made_before_it_was_killed_is_kept(
    folder: Path, encoder: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Counted, "ends_after", ROWS // 2)
    with pytest.raises(KeyboardInterrupt):
        opened(folder, encoder)
    assert ROWS // 2 < sum(encoder.made) < ROWS
    monkeypatch.setattr(Counted, "ends_after", 1 << 30)
    assert len(opened(folder, encoder)) == ROWS
    assert sum(encoder.made) == ROWS


def _other_text(folder: Path, encoder: WordPieces) -> WordPieces:
    text = (folder / "train.tsv").read_text().splitlines(keepends=True)
    (folder / "train.tsv").write_text("".join((*text[:2], *reversed(text[2:]))))
    return encoder


@pytest.mark.parametrize(
    "change", [_other_text, lambda _, encoder: replace(encoder, longest=31)], ids=["text", "length"]
)
def test_other_rows_are_made_anew(
    folder: Path, encoder: Counted, change: Callable[[Path, WordPieces], WordPieces]
) -> None:
    first = opened(folder, encoder).digest
    assert opened(folder, change(folder, encoder)).digest != first


def test_a_file_without_rows_and_one_of_too_many_damaged_lines_are_refused(tmp_path: Path) -> None:
    encoder = WordPieces(vocabulary=sample_vocabulary(), is_cased=False, longest=32)
    (tmp_path / "train.tsv").write_text("Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n")
    with pytest.raises(DataError, match="train of mrpc has no rows"):
        opened(tmp_path, encoder)
    good, damaged = "9\t1\t2\tA one?\tB two?\t1\n", "9\t1\t2\tA one?\n"
    lines = "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n" + (good * 100 + damaged) * 4
    (tmp_path / "train.tsv").write_text(lines)
    with pytest.raises(
        DataError, match=r"train\.tsv has 4 lines that lack columns, but qqp is known to have only 3"
    ):
        node_rows(open_table(str(tmp_path), TASKS["qqp"], TRAIN), encoder, ALONE)


OF_MUCH = """
import resource, sys
from slipway.containers.data.glue import node_rows as made_rows
from slipway.containers.data.glue.tasks import TASKS
from slipway.containers.data.glue.texts import TRAIN, open_table
from slipway.containers.data.glue.tokens import WordPieces
from slipway.containers.data.samples.model_sample import sample_vocabulary
from slipway.containers.runtime.contract.launchers import read_contract
made_rows.STRETCH_BYTES = 256 << 10
resource.setrlimit(resource.RLIMIT_DATA, (int(sys.argv[2]),) * 2)
encoder = WordPieces(vocabulary=sample_vocabulary(), is_cased=False, longest=128)
rows = made_rows.node_rows(open_table(sys.argv[1], TASKS["mrpc"], TRAIN), encoder, read_contract({}))
print(len(rows), rows.ids.nbytes)
"""


@pytest.mark.long
def test_text_larger_than_the_memory_that_a_rank_may_have_is_prepared(tmp_path: Path) -> None:
    write_task(tmp_path / "mrpc", "mrpc", train_rows=4000)
    headings, *lines = (tmp_path / "mrpc" / "train.tsv").read_text().splitlines(keepends=True)
    most_bytes, times = 192 << 20, 250
    with (tmp_path / "mrpc" / "train.tsv").open("w") as file:
        file.write(headings)
        for _ in range(times):
            file.writelines(lines)
    assert (tmp_path / "mrpc" / "train.tsv").stat().st_size > most_bytes
    command = [sys.executable, "-c", OF_MUCH, str(tmp_path / "mrpc"), str(most_bytes)]
    ran = subprocess.run(
        command, capture_output=True, text=True, check=False, env={"TMPDIR": str(tmp_path / "temporary")}
    )
    assert ran.returncode == 0, ran.stderr
    rows, size = map(int, ran.stdout.split())
    assert rows == times * len(lines)
    assert size > most_bytes
