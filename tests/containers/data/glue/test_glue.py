"""GLUE's tasks are read as published; an error in a file is told with its name and line."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("tokenizers")

from slipway.containers.data.errors import DataError
from slipway.containers.data.glue.node_rows import EncodedRows
from slipway.containers.data.glue.tasks import TASKS, Split, Task, find_task
from slipway.containers.data.glue.texts import TRAIN, TaskTable, Texts, open_table, read_texts
from slipway.containers.data.glue.tokens import WordPieces
from slipway.containers.data.samples.model_sample import sample_vocabulary
from slipway.containers.data.samples.texts import write_task
from tests.containers.data.tokens.reference.words import library_tokenizer

# A line of each official train.tsv: the columns as GLUE's download has them, and what should be read.
HEADINGS = {
    "cola": "",
    "sst2": "sentence\tlabel\n",
    "mrpc": "\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\n",
    "qqp": "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n",
    "stsb": "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2\tscore\n",
    "mnli": "index\tpromptID\tpairID\tgenre\tp1\tp2\ts1\ts2\tsentence1\tsentence2\tlabel1\tgold_label\n",
    "qnli": "index\tquestion\tsentence\tlabel\n",
    "rte": "index\tsentence1\tsentence2\tlabel\n",
    "wnli": "index\tsentence1\tsentence2\tlabel\n",
}
LINES = {
    "cola": ("gj04\t0\t*\tA one.", ("A one.",), 0),
    "sst2": ('hide " new\t1', ('hide " new',), 1),
    "mrpc": ("1\t70\t71\tA one.\tB two.", ("A one.", "B two."), 1),
    "qqp": ('9\t1\t2\t"A"" one?\tB two?\t1', ('"A"" one?', "B two?"), 1),
    "stsb": ("0\tmain\tf\t2012\t1\tn\tn\tA one.\tB two.\t3.800", ("A one.", "B two."), 3.8),
    "mnli": ("0\t1\t2\tg\tp\tp\ts\ts\tA one.\tB two.\tneutral\tcontradiction", ("A one.", "B two."), 2),
    "qnli": ("0\tA one?\tB two.\tnot_entailment", ("A one?", "B two."), 1),
    "rte": ("0\tA one.\tB two.\tentailment", ("A one.", "B two."), 0),
    "wnli": ("0\tA one.\tB two.\t1", ("A one.", "B two."), 1),
}


def table(folder: Path, data: bytes, name: str, split: Split = TRAIN) -> TaskTable:
    (folder / f"{split.tsv}.tsv").write_bytes(data)
    return open_table(str(folder), TASKS[name], split)


def read(folder: Path, data: bytes, name: str, split: Split = TRAIN) -> Texts:
    found = table(folder, data, name, split)
    (whole,) = found.pieces(1 << 30)
    return read_texts(found, whole)


@pytest.mark.parametrize("name", TASKS)
def test_every_task_is_read_from_its_official_columns(name: str, tmp_path: Path) -> None:
    line, texts, label = LINES[name]
    found = read(tmp_path, f"{HEADINGS[name]}{line}\r\n".encode(), name)
    assert (*found.first, *found.second) == texts
    assert found.labels == [label]


@pytest.mark.parametrize(("text", "name"), [("SST-2", "sst2"), ("MRPC", "mrpc"), ("sts-b", "stsb")])
def test_a_task_goes_by_its_published_name_too(text: str, name: str) -> None:
    assert find_task(text) is TASKS[name]


WRONG: dict[str, tuple[bytes, str]] = {
    "missing column": (b"Quality\t#1 ID\t#1 String\n", r"train\.tsv:1 has no column #2 String"),
    "short line": (b"Q\n1\t2\t3\ta\n", r"train\.tsv:2 has 4 columns, but mrpc has 5"),
    "long line": (b"Q\n1\t2\t3\ta\tb\tc\n", r"train\.tsv:2 has 6 columns"),
    "blank line": (b"Q\n\n", r"train\.tsv:2 has 1 columns"),
    "wrong label": (b"Q\n1\t2\t3\ta\tb\n7\t2\t3\ta\tb\n", r"train\.tsv:3 has the label '7'; mrpc has 0 or 1"),
    "latin-1": (b"Q\n1\t2\t3\ta\tcaf\xe9\n", r"train\.tsv:2: byte 11 of the line \(0xe9\) is not UTF-8"),
    "utf-16": ("Quality".encode("utf-16"), r"train\.tsv:1: byte 0 .* is not UTF-8"),
    "empty": (b"", r"train\.tsv is empty"),
    "blank": (b" \n\n", r"train\.tsv:1 has no column"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_told_with_file_and_line(case: str, tmp_path: Path) -> None:
    data, told = WRONG[case]
    data = data.replace(b"Q\n", HEADINGS["mrpc"].encode(), 1)
    with pytest.raises(DataError, match=told):
        read(tmp_path, data, "mrpc")


def test_stretches_have_each_row_once_and_tell_the_line_of_the_whole_file(tmp_path: Path) -> None:
    lines = [f"row {number} {'x' * (number % 7)}\t{number % 2}\n" for number in range(40)]
    found = table(tmp_path, (HEADINGS["sst2"] + "".join(lines)).encode(), "sst2")
    for size_bytes in (1, 7, len(HEADINGS["sst2"]), 1 << 30):
        read_each = [read_texts(found, piece) for piece in found.pieces(size_bytes)]
        assert [text for each in read_each for text in each.first] == [line[:-3] for line in lines]
        assert [label for each in read_each for label in each.labels] == [0.0, 1.0] * 20
    lines[30] = "no label\n"
    bad = table(tmp_path, (HEADINGS["sst2"] + "".join(lines)).encode(), "sst2")
    with pytest.raises(DataError, match=r"train\.tsv:32 has 1 columns"):
        read_texts(bad, bad.pieces(300)[1])


@pytest.mark.parametrize("score", ["-1", "5.1", "nan", "", "1e0", "٣"])
def test_a_score_lies_between_0_and_5(score: str, tmp_path: Path) -> None:
    data = (HEADINGS["stsb"] + LINES["stsb"][0].replace("3.800", score)).encode()
    with pytest.raises(DataError, match=r"dev\.tsv:2 has the label .*a number from 0 to 5"):
        read(tmp_path, data, "stsb", Split(name="dev", tsv="dev"))


def test_the_lines_that_official_files_have_damaged_are_left_out_and_counted(tmp_path: Path) -> None:
    good, damaged = LINES["qqp"][0], "9\t1\t2\tA one?"
    found = read(tmp_path, f"{HEADINGS['qqp']}{good}\n{damaged}\n{good}\n".encode(), "qqp")
    assert (len(found.labels), found.left_out) == (2, 1)
    with pytest.raises(DataError, match=r"train\.tsv:5 has 4 columns"):
        read(tmp_path, (HEADINGS["qqp"] + f"{damaged}\n" * 4).encode(), "qqp")


def test_a_folder_without_the_file_is_named_and_how_datasets_writes_it(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"has no train\.tsv; .* split\.to_csv\("):
        open_table(str(tmp_path), TASKS["mrpc"], TRAIN)
    with pytest.raises(DataError, match="is no folder"):
        open_table(str(tmp_path / "none"), TASKS["mrpc"], TRAIN)


# What `to_csv` of datasets writes for a row of a task: its columns, labels as numbers, and nothing quoted.
FROM_DATASETS = {
    "cola": ('sentence\tlabel\tidx\nA "one.\t0\t7\n', ('A "one.',), 0),
    "mrpc": ("sentence1\tsentence2\tlabel\tidx\nA one.\tB two.\t1\t7\n", ("A one.", "B two."), 1),
    "stsb": ("sentence1\tsentence2\tlabel\tidx\nA.\tB.\t3.799999952316284\t7\n", ("A.", "B."), 3.8),
    "mnli": ("premise\thypothesis\tlabel\tidx\nA one.\tB two.\t2\t7\n", ("A one.", "B two."), 2),
    "rte": ("sentence1\tsentence2\tlabel\tidx\nA one.\tB two.\t1\t7\n", ("A one.", "B two."), 1),
}


@pytest.mark.parametrize("name", FROM_DATASETS)
def test_what_datasets_writes_as_tsv_is_read(name: str, tmp_path: Path) -> None:
    text, texts, label = FROM_DATASETS[name]
    found = read(tmp_path, text.encode(), name)
    assert (*found.first, *found.second) == texts
    assert found.labels == pytest.approx([label])


def test_a_test_set_without_labels_is_refused_by_line(tmp_path: Path) -> None:
    data = b"sentence1\tsentence2\tlabel\tidx\nA one.\tB two.\t-1\t7\n"
    with pytest.raises(DataError, match=r"test\.tsv:2 has the label '-1'; mrpc has 0 or 1"):
        read(tmp_path, data, "mrpc", Split(name="test", tsv="test"))


def test_rows_are_those_of_the_tokenizers_library() -> None:
    """Short, empty and far too long texts, cut as `longest_first` cuts."""
    texts = Texts(
        first=["a b, c", "", "a " * 2000, "b b", "a " * 9, "a"],
        second=["c c", "b", "b", "c " * 30, "b " * 8, "\x00"],
        labels=[0, 1, 0, 1, 0, 1],
    )
    found = pieces(longest=16).encode(texts)
    assert _rows(found) == _their_rows(texts, longest=16)


def pieces(longest: int) -> WordPieces:
    return WordPieces(vocabulary=sample_vocabulary(), is_cased=False, longest=longest)


def _their_rows(texts: Texts, longest: int) -> list[tuple[list[int], int]]:
    from tokenizers.processors import BertProcessing

    numbers = sample_vocabulary().numbers
    tokenizer = library_tokenizer(sample_vocabulary(), lowercase=True)
    tokenizer.post_processor = BertProcessing(("[SEP]", numbers["[SEP]"]), ("[CLS]", numbers["[CLS]"]))
    tokenizer.enable_truncation(longest, strategy="longest_first")
    encoded = [tokenizer.encode(*pair) for pair in zip(texts.first, texts.second, strict=True)]
    return [(each.ids, each.type_ids.count(0)) for each in encoded]


def _rows(block: EncodedRows) -> list[tuple[list[int], int]]:
    ends = block.lengths.cumsum()
    return [
        (block.ids[end - length : end].tolist(), int(first))
        for end, length, first in zip(ends, block.lengths, block.firsts, strict=True)
    ]


@pytest.mark.parametrize("task", [TASKS["mrpc"], TASKS["sst2"]], ids=lambda task: task.name)
def test_a_sample_task_is_the_same_each_time_and_known_to_the_sample_vocabulary(
    tmp_path: Path, task: Task
) -> None:
    for name in ("a", "b"):
        write_task(tmp_path / name, task.name, train_rows=50)
    assert (tmp_path / "a" / "train.tsv").read_bytes() == (tmp_path / "b" / "train.tsv").read_bytes()
    found = pieces(longest=128).encode(
        read(tmp_path / "a", (tmp_path / "a" / "train.tsv").read_bytes(), task.name)
    )
    assert len(found.labels) == 50
    assert sample_vocabulary().numbers["[UNK]"] not in found.ids


def test_a_vocabulary_of_another_language_is_refused() -> None:
    texts = Texts(first=["日本語 " * 600] * 2, labels=[0, 1])
    with pytest.raises(DataError, match="tokens are unknown"):
        pieces(longest=16).encode(texts)
