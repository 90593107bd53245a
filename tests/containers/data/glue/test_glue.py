"""GLUE's tasks are read as they are published; what is wrong with a file is said with its name and line."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("tokenizers")

import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st

from slipway.containers.data.errors import DataError
from slipway.containers.data.glue.arrow_file import read_arrow
from slipway.containers.data.glue.tasks import TASKS, Task, find_task
from slipway.containers.data.glue.texts import TRAIN, Texts, parse_tsv, read_texts
from slipway.containers.data.glue.tokens import Examples, tokenise
from slipway.containers.data.samples.model_sample import sample_vocabulary
from slipway.containers.data.samples.texts import write_task
from tests.containers.data.arrow_samples import COMPRESSED, DICTIONARY, FILE, STREAM

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


@pytest.mark.parametrize("name", TASKS)
def test_every_task_is_read_from_its_official_columns(name: str) -> None:
    line, texts, label = LINES[name]
    rows = parse_tsv("train.tsv", f"{HEADINGS[name]}{line}\r\n".encode(), TASKS[name])
    assert rows.texts == [texts]
    assert rows.labels == [label]


@pytest.mark.parametrize(("text", "name"), [("SST-2", "sst2"), ("MRPC", "mrpc"), ("sts-b", "stsb")])
def test_a_task_goes_by_its_published_name_too(text: str, name: str) -> None:
    assert find_task(text) is TASKS[name]


@pytest.mark.parametrize("text", ["../mrpc", "mrpc/", "mrpc;reboot", "$(x)", "", "mr pc", "mrpc\n", "m-r-pc"])
def test_a_path_or_shell_is_no_task(text: str) -> None:
    assert find_task(text) is None


WRONG: dict[str, tuple[bytes, str]] = {
    "missing column": (b"Quality\t#1 ID\t#1 String\n", r"train\.tsv:1 has no column #2 String"),
    "short line": (b"Q\n1\t2\t3\ta\n", r"train\.tsv:2 has 4 columns, and mrpc has 5"),
    "long line": (b"Q\n1\t2\t3\ta\tb\tc\n", r"train\.tsv:2 has 6 columns"),
    "blank line": (b"Q\n\n", r"train\.tsv:2 has 1 columns"),
    "wrong label": (b"Q\n1\t2\t3\ta\tb\n7\t2\t3\ta\tb\n", r"train\.tsv:3 has the label '7'; mrpc has 0 or 1"),
    "latin-1": (b"Q\n1\t2\t3\ta\tcaf\xe9\n", r"train\.tsv:2: byte 11 of the line \(0xe9\) is not UTF-8"),
    "utf-16": ("Quality".encode("utf-16"), r"train\.tsv:1: byte 0 .* is not UTF-8"),
    "empty": (b"", r"train\.tsv is empty"),
    "blank": (b" \n\n", r"train\.tsv is empty"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_told_with_file_and_line(case: str) -> None:
    data, told = WRONG[case]
    data = data.replace(b"Q\n", HEADINGS["mrpc"].encode(), 1)
    with pytest.raises(DataError, match=told):
        parse_tsv("train.tsv", data, TASKS["mrpc"])


@pytest.mark.parametrize("score", ["-1", "5.1", "nan", "", "1e0", "٣"])
def test_a_score_lies_between_0_and_5(score: str) -> None:
    data = (HEADINGS["stsb"] + LINES["stsb"][0].replace("3.800", score)).encode()
    with pytest.raises(DataError, match=r"dev\.tsv:2 has the label .*a number from 0 to 5"):
        parse_tsv("dev.tsv", data, TASKS["stsb"])


def test_the_lines_that_official_files_have_damaged_are_left_out_and_counted() -> None:
    good, damaged = LINES["qqp"][0], "9\t1\t2\tA one?"
    rows = parse_tsv("train.tsv", f"{HEADINGS['qqp']}{good}\n{damaged}\n{good}\n".encode(), TASKS["qqp"])
    assert (len(rows.labels), rows.left_out) == (2, 1)
    with pytest.raises(DataError, match=r"train\.tsv:5 has 4 columns"):
        parse_tsv("train.tsv", (HEADINGS["qqp"] + f"{damaged}\n" * 4).encode(), TASKS["qqp"])


def test_a_folder_with_neither_layout_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"neither train\.tsv nor Arrow files of train"):
        read_texts(str(tmp_path), TASKS["mrpc"], TRAIN)
    with pytest.raises(DataError, match="is no folder"):
        read_texts(str(tmp_path / "none"), TASKS["mrpc"], TRAIN)
    (tmp_path / "train.tsv").write_text(HEADINGS["mrpc"])
    with pytest.raises(DataError, match="has no rows"):
        read_texts(str(tmp_path), TASKS["mrpc"], TRAIN)


@pytest.mark.parametrize("data", [STREAM, FILE], ids=["stream", "file"])
def test_arrow_columns_are_those_that_pyarrow_wrote(data: bytes) -> None:
    found = read_arrow("x.arrow", data, ("sentence1", "sentence2", "label", "idx", "score"))
    assert found == {
        "sentence1": ["Ein Satz – hier.", "zwei", ""],
        "sentence2": ["drei", "vier", "fünf"],
        "label": [1, 0, 1],
        "idx": [0, 1, 2],
        "score": [0.5, None, 5.0],
    }


@pytest.mark.parametrize("name", ["train/data-00000-of-00001.arrow", "glue-train.arrow"])
def test_the_layouts_of_datasets_are_found(tmp_path: Path, name: str) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_bytes(STREAM)
    texts = read_texts(str(tmp_path), TASKS["mrpc"], TRAIN)
    assert (list(texts.second), list(texts.labels)) == (["drei", "vier", "fünf"], [1, 0, 1])


def test_what_arrow_cannot_tell_is_refused() -> None:
    with pytest.raises(DataError, match=r"x\.arrow is compressed"):
        read_arrow("x.arrow", COMPRESSED, ("label",))
    with pytest.raises(DataError, match="the column 'label' is dictionary-encoded"):
        read_arrow("x.arrow", DICTIONARY, ("label",))
    with pytest.raises(DataError, match=r"x\.arrow has no column premise; it has sentence1, "):
        read_arrow("x.arrow", STREAM, ("premise",))


def test_a_test_set_without_labels_is_refused_by_row(tmp_path: Path) -> None:
    labels = b"\1" + b"\0" * 15 + b"\1" + b"\0" * 7
    assert FILE.count(labels) == 1
    (tmp_path / "glue-train.arrow").write_bytes(FILE.replace(labels, b"\xff" * 8 + labels[8:]))
    with pytest.raises(DataError, match=r"glue-train\.arrow: row 1 has the label -1; mrpc has 0 to 1"):
        read_texts(str(tmp_path), TASKS["mrpc"], TRAIN)


@settings(max_examples=300)
@given(
    changes=st.lists(st.tuples(st.integers(0, len(STREAM) - 1), st.integers(0, 255)), max_size=4),
    kept=st.integers(0, len(STREAM)),
)
def test_a_damaged_arrow_file_gives_columns_or_one_refusal(changes: list[tuple[int, int]], kept: int) -> None:
    data = bytearray(STREAM)
    for at, byte in changes:
        data[at] = byte
    try:
        found = read_arrow("x.arrow", bytes(data[:kept]), ("sentence1", "label"))
    except DataError as error:
        assert str(error).startswith("x.arrow")  # noqa: PT017  # either is right
    else:
        assert set(found) == {"sentence1", "label"}


def test_rows_are_those_of_the_tokenizers_library() -> None:
    """Short, empty and far too long texts, cut as `longest_first` cuts."""
    texts = Texts(
        first=["a b, c", "", "a " * 2000, "b b", "a " * 9, "a"],
        second=["c c", "b", "b", "c " * 30, "b " * 8, "\x00"],
        labels=[0, 1, 0, 1, 0, 1],
    )
    found = tokenise(texts, sample_vocabulary(), cased=False, longest=16)
    theirs = _their_rows(texts, longest=16)
    assert _rows(found) == theirs
    assert found.digest == tokenise(texts, sample_vocabulary(), cased=False, longest=16).digest


def _their_rows(texts: Texts, longest: int) -> list[tuple[list[int], int]]:
    from tokenizers.models import WordPiece
    from tokenizers.normalizers import BertNormalizer
    from tokenizers.pre_tokenizers import BertPreTokenizer
    from tokenizers.processors import BertProcessing

    numbers = sample_vocabulary().numbers
    tokenizer = tokenizers.Tokenizer(WordPiece(numbers, unk_token="[UNK]"))
    tokenizer.normalizer, tokenizer.pre_tokenizer = BertNormalizer(), BertPreTokenizer()
    tokenizer.post_processor = BertProcessing(("[SEP]", numbers["[SEP]"]), ("[CLS]", numbers["[CLS]"]))
    tokenizer.enable_truncation(longest, strategy="longest_first")
    encoded = [tokenizer.encode(*pair) for pair in zip(texts.first, texts.second, strict=True)]
    return [(each.ids, each.type_ids.count(0)) for each in encoded]


def _rows(examples: Examples) -> list[tuple[list[int], int]]:
    begins = examples.begins.tolist()
    return [
        (examples.ids[begins[row] : begins[row + 1]].tolist(), int(examples.firsts[row]))
        for row in range(len(examples))
    ]


@pytest.mark.parametrize("task", [TASKS["mrpc"], TASKS["sst2"]], ids=lambda task: task.name)
def test_a_sample_task_is_the_same_each_time_and_known_to_the_sample_vocabulary(
    tmp_path: Path, task: Task
) -> None:
    for name in ("a", "b"):
        write_task(tmp_path / name, task.name, train_rows=50)
    assert (tmp_path / "a" / "train.tsv").read_bytes() == (tmp_path / "b" / "train.tsv").read_bytes()
    texts = read_texts(str(tmp_path / "a"), task, TRAIN)
    vocabulary = sample_vocabulary()
    found = tokenise(texts, vocabulary, cased=False, longest=128)
    assert len(found) == 50
    assert vocabulary.numbers["[UNK]"] not in found.ids


def test_a_vocabulary_of_another_language_is_refused() -> None:
    texts = Texts(first=["日本語 " * 600] * 2, second=(), labels=[0, 1])
    with pytest.raises(DataError, match="tokens are unknown"):
        tokenise(texts, sample_vocabulary(), cased=False, longest=16)
