"""Shards have the layout that loaders expect and each row once, however many processes make them."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest
from numpy.typing import NDArray

from slipway.containers.data.errors import DataError
from slipway.containers.data.rows.prepare import Share, merge, prepare
from slipway.containers.data.rows.shards import read_manifest
from slipway.containers.data.sources.sources import FetchSource, SourceFile, local_source
from slipway.containers.data.tokens.engine import Vocabulary
from tests.containers.data.conftest import MakeSettings

# How the well-known loader of such shards reads a file, written anew: all six keys in this order.
# NVIDIA's and Habana's BERT (run_pretraining.py) read them so; labels of places that are not masked are -1.
KEYS = (
    "input_ids",
    "input_mask",
    "segment_ids",
    "masked_lm_positions",
    "masked_lm_ids",
    "next_sentence_labels",
)
Sample = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], int]


class ReferenceDataset:
    def __init__(self, path: Path, most_predictions: int) -> None:
        with h5py.File(path, "r") as file:
            self._inputs = [np.asarray(file[key][:]) for key in KEYS]
        self._most_predictions = most_predictions

    def __len__(self) -> int:
        return len(self._inputs[0])

    def __getitem__(self, row: int) -> Sample:
        ids, mask, segments, positions, labels = (column[row].astype(np.int64) for column in self._inputs[:5])
        empty = np.flatnonzero(positions == 0)
        count = int(empty[0]) if len(empty) else self._most_predictions
        masked_labels = np.full(ids.shape, -1, dtype=np.int64)
        masked_labels[positions[:count]] = labels[:count]
        return ids, segments, mask, masked_labels, int(self._inputs[5][row])


ROOT = Path(__file__).resolve().parents[4]


def rows_of(folder: Path) -> dict[str, list[bytes]]:
    """Read the content of shards, however it is compressed."""
    found = {}
    for path in sorted(folder.glob("*.hdf5")):
        with h5py.File(path) as file:
            found[path.name] = [file[key][:].tobytes() for key in KEYS]
    return found


def command(corpus: Path, vocabulary: Path, output: Path, *more: str) -> list[str]:
    start = [
        sys.executable,
        "-m",
        "slipway.containers.data.rows.prepare_bert",
        "--phase",
        "1",
        "--seed",
        "7",
        "--duplicates",
        "2",
    ]
    return [*start, "--input", str(corpus), "--vocabulary", str(vocabulary), "--output", str(output), *more]


@pytest.mark.parametrize(("phase", "row_tokens", "predictions"), [(1, 128, 20), (2, 512, 80)])
def test_shards_have_the_reference_layout(
    corpus: Path, tmp_path: Path, make_settings: MakeSettings, phase: int, row_tokens: int, predictions: int
) -> None:
    prepare(local_source(corpus), make_settings(phase=phase), tmp_path / "out", Share(), shards=1)
    with h5py.File(tmp_path / "out" / "shard-00000.hdf5") as file:
        rows = len(file["input_ids"])
        found = {key: (file[key].dtype.str, file[key].shape, file[key].compression) for key in file}
    assert found == {
        "input_ids": ("<i4", (rows, row_tokens), "gzip"),
        "input_mask": ("|i1", (rows, row_tokens), "gzip"),
        "segment_ids": ("|i1", (rows, row_tokens), "gzip"),
        "masked_lm_positions": ("<i4", (rows, predictions), "gzip"),
        "masked_lm_ids": ("<i4", (rows, predictions), "gzip"),
        "next_sentence_labels": ("|i1", (rows,), "gzip"),
    }
    assert rows > 100


def test_the_reference_loader_reads_what_was_written(dataset: Path, vocabulary: Vocabulary) -> None:
    numbers = vocabulary.numbers
    for shard in read_manifest(dataset).shards:
        reference = ReferenceDataset(dataset / shard.name, 20)
        assert len(reference) == shard.rows
        for row in range(0, len(reference), 50):
            ids, segments, mask, labels, is_random = reference[row]
            used = int(mask.sum())
            restored = np.where(labels >= 0, labels, ids)
            assert restored[0] == numbers["[CLS]"]
            assert (restored[:used] == numbers["[SEP]"]).sum() == 2
            assert restored[used - 1] == numbers["[SEP]"]
            assert (restored[used:] == numbers["[PAD]"]).all()
            assert segments[used - 1] == 1
            assert is_random in (0, 1)
            assert (labels >= 0).sum() == min(20, max(1, round(used * 0.15)))


@pytest.mark.parametrize("workers", [2, 3])
def test_the_number_of_workers_changes_no_row(
    corpus: Path, dataset: Path, tmp_path: Path, make_settings: MakeSettings, workers: int
) -> None:
    prepare(local_source(corpus), make_settings(), tmp_path / "out", Share(workers=workers), shards=3)
    assert rows_of(tmp_path / "out") == rows_of(dataset)
    assert read_manifest(tmp_path / "out").digest == read_manifest(dataset).digest


def test_another_seed_masks_anew(
    corpus: Path, dataset: Path, tmp_path: Path, make_settings: MakeSettings
) -> None:
    prepare(local_source(corpus), make_settings(seed=8), tmp_path / "out", Share(), shards=3)
    assert rows_of(tmp_path / "out") != rows_of(dataset)


def test_duplicates_are_masked_anew(dataset: Path) -> None:
    with h5py.File(dataset / "shard-00000.hdf5") as file:
        rows = file["input_ids"][:]
    assert len(np.unique(rows, axis=0)) > 0.99 * len(rows)


def test_nodes_of_an_array_make_together_what_one_makes(
    corpus: Path, dataset: Path, tmp_path: Path, make_settings: MakeSettings
) -> None:
    out = tmp_path / "out"
    for index in (1, 0):
        share = Share(array_index=index, array_size=2)
        assert prepare(local_source(corpus), make_settings(), out, share, shards=3) is None
        if index:
            with pytest.raises(DataError, match=r"2 of 3 shards .* missing or damaged: 0, 2; run the same"):
                merge(out)
    assert merge(out, with_digests=True).digest == read_manifest(dataset).digest
    assert rows_of(out) == rows_of(dataset)


def test_only_lost_and_damaged_shards_are_made_again(
    corpus: Path, dataset: Path, tmp_path: Path, make_settings: MakeSettings
) -> None:
    out = tmp_path / "out"
    shutil.copytree(dataset, out)
    (out / "shard-00000.hdf5").unlink()
    damaged = out / "shard-00001.hdf5"
    content = bytearray(damaged.read_bytes())
    content[len(content) // 2] ^= 1
    damaged.write_bytes(content)
    kept = (out / "shard-00002.hdf5").stat()
    prepare(local_source(corpus), make_settings(), out, Share(), shards=3)
    assert rows_of(out) == rows_of(dataset)
    assert (out / "shard-00002.hdf5").stat().st_ino == kept.st_ino
    assert (out / "shard-00001.hdf5").stat().st_ino != kept.st_ino


def test_text_that_changed_is_prepared_again(
    corpus: Path, tmp_path: Path, make_settings: MakeSettings
) -> None:
    changing = tmp_path / "text" / "a.txt"
    changing.parent.mkdir()
    shutil.copy(corpus, changing)
    out = tmp_path / "out"
    prepare(local_source(changing), make_settings(), out, Share(), shards=3)
    before = rows_of(out)
    text = changing.read_bytes()
    changing.write_bytes(text.replace(b"a", b"e", 1))
    prepare(local_source(changing), make_settings(), out, Share(), shards=3)
    after = rows_of(out)
    assert [name for name in before if before[name] != after[name]] == ["shard-00000.hdf5"]


def test_a_folder_takes_no_second_dataset(dataset: Path, corpus: Path, make_settings: MakeSettings) -> None:
    before = rows_of(dataset)
    with pytest.raises(DataError, match="holds a dataset with seed 7, but this run has seed 9"):
        prepare(local_source(corpus), make_settings(seed=9), dataset, Share(), shards=3)
    assert rows_of(dataset) == before


def test_a_killed_run_goes_on_where_it_was(
    corpus: Path, vocabulary_file: Path, tmp_path: Path, make_settings: MakeSettings
) -> None:
    """Killed with SIGKILL at its third shard, from within the reader, so that no clock decides when."""
    out, whole = tmp_path / "out", tmp_path / "whole"
    script = (
        "import os, signal, sys; from slipway.containers.data.rows import work, prepare_bert\n"
        "make = work.make_shard\n"
        "def dying(w, number, report):\n"
        "    die = lambda count: os.kill(os.getpid(), signal.SIGKILL)\n"
        "    return make(w, number, die if number == 2 else report)\n"
        "work.make_shard = dying\n"
        "sys.exit(prepare_bert.main(sys.argv[1:]))"
    )
    arguments = command(corpus, vocabulary_file, out, "--shards", "4")[3:]
    killed = subprocess.run(
        [sys.executable, "-c", script, *arguments], cwd=ROOT, capture_output=True, check=False
    )
    assert killed.returncode == -signal.SIGKILL
    assert sorted(rows_of(out)) == ["shard-00000.hdf5", "shard-00001.hdf5"]
    assert not (out / "manifest.json").exists()
    assert list(out.glob(".shard-00002*"))
    kept = (out / "shard-00001.hdf5").stat().st_ino
    subprocess.run(
        command(corpus, vocabulary_file, out, "--shards", "4"), cwd=ROOT, capture_output=True, check=True
    )
    prepare(local_source(corpus), make_settings(), whole, Share(), shards=4)
    assert rows_of(out) == rows_of(whole)
    assert (out / "shard-00001.hdf5").stat().st_ino == kept
    assert not list(out.glob(".shard*"))


def test_workers_end_when_their_parent_is_killed(corpus: Path, vocabulary_file: Path, tmp_path: Path) -> None:
    """They hold its stderr, too: reading that to its end waits for the last of them."""
    script = (
        "import os, signal, sys; from slipway.containers.data import preparation\n"
        "from slipway.containers.data.rows import prepare_bert\n"
        "preparation.PreparationProgress.made = lambda self, count: os.kill(os.getpid(), signal.SIGKILL)\n"
        "if __name__ == '__main__': prepare_bert.main(sys.argv[1:])"
    )
    path = tmp_path / "dying.py"
    path.write_text(script)
    arguments = command(corpus, vocabulary_file, tmp_path / "out", "--shards", "8", "--workers", "2")[3:]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        [sys.executable, str(path), *arguments], cwd=ROOT, env=environment, stderr=subprocess.PIPE
    ) as process:
        assert process.stderr is not None
        process.stderr.read()
    assert process.returncode == -signal.SIGKILL


def test_objects_are_read_through_the_callers_function(
    corpus: Path, dataset: Path, tmp_path: Path, make_settings: MakeSettings
) -> None:
    text = corpus.read_bytes()
    asked: list[tuple[str, int, int]] = []

    def fetch(file: SourceFile, start: int, stop: int) -> bytes:
        asked.append((file.name, start, stop))
        return text[start:stop]

    source = FetchSource(local_source(corpus).files, fetch)
    prepare(source, make_settings(), tmp_path / "out", Share(), shards=3)
    assert rows_of(tmp_path / "out") == rows_of(dataset)
    assert max(stop for _, _, stop in asked) == len(text)


def test_many_small_files_make_the_same_documents_as_one(
    corpus: Path, tmp_path: Path, make_settings: MakeSettings
) -> None:
    folder = tmp_path / "many"
    folder.mkdir()
    for number, document in enumerate(corpus.read_text().split("\n\n")):
        (folder / f"{number:05}.txt").write_text(document)
    manifest = prepare(local_source(folder), make_settings(), tmp_path / "out", Share(), shards=2)
    one = prepare(local_source(corpus), make_settings(), tmp_path / "one", Share(), shards=2)
    assert manifest is not None
    assert one is not None
    assert sum(shard.documents for shard in manifest.shards) == sum(shard.documents for shard in one.shards)
    assert sum(shard.tokens for shard in manifest.shards) == sum(shard.tokens for shard in one.shards)
