"""All rows are checked before anything is trained, and models are read without pickles and code."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("safetensors", reason="the extra 'compare' is not installed")
pytest.importorskip("obstore")
pytest.importorskip("moto")

import torch
from safetensors.torch import save_file

from slipway.containers.data.errors import DataError
from slipway.containers.recipes.sft.data import model_of, rows_of
from slipway.containers.runtime.errors import Refusal
from tests.containers.recipes.gpt_neox.test_model import contract

SAID = [{"role": "user", "content": "hello"}]
WRONG: dict[str, tuple[str, bytes | object, str]] = {
    "no JSON": ("sft", b"{'text': 'a'}", "line 3 is no JSON object"),
    "no object": ("sft", ["a"], "line 3 is no JSON object"),
    "other columns": (
        "sft",
        {"body": "a"},
        "line 3 has 'body'; sft reads messages; or prompt and completion",
    ),
    "another form": ("sft", {"messages": SAID}, "line 3 has messages as messages, and the first row text as"),
    "no text": ("sft", {"text": 7}, "line 3 has '7' as its text"),
    "nothing": ("sft", {"text": ""}, "as its text; texts are texts"),
    "a text of messages": ("sft", {"messages": "hello"}, "as its messages; texts are texts"),
    "tools": (
        "sft",
        {"messages": [{"role": "user", "content": "a"}], "tools": [{"name": "search"}]},
        "has 'tools', which sft leaves out",
    ),
    "unsaid": ("sft", {"messages": [{"role": "user"}]}, "as its messages; texts are texts"),
    "two kinds": ("sft", {"prompt": "a", "completion": SAID}, "as its completion; texts are texts"),
    "no preference": ("dpo", {"text": "a"}, "dpo reads prompt and chosen and rejected; or chosen and"),
}


@pytest.fixture(autouse=True)
def own_disk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


@pytest.mark.parametrize("case", WRONG)
def test_the_first_row_that_is_wrong_is_named_by_file_and_line(tmp_path: Path, case: str) -> None:
    method, row, told = WRONG[case]
    good = {"text": "a"} if method == "sft" else {"chosen": "a", "rejected": "b"}
    line = row if isinstance(row, bytes) else json.dumps(row).encode()
    (tmp_path / "rows.jsonl").write_bytes(json.dumps(good).encode() + b"\n\n" + line)
    with pytest.raises(DataError) as caught:
        rows_of("rows.jsonl", method, contract(tmp_path))
    assert str(caught.value).startswith("rows.jsonl, line 3 ")
    assert told in str(caught.value)


def test_rows_of_a_folder_are_those_of_its_files_with_the_columns_that_are_trained_on(tmp_path: Path) -> None:
    (tmp_path / "rows").mkdir()
    for name in ("b", "a"):
        row = json.dumps({"id": 1, "text": name * 9_000_000})  # longer than a block
        (tmp_path / "rows" / f"{name}.jsonl").write_text(f"{row}\n")
    found = rows_of("rows", "sft", contract(tmp_path))
    rows = [json.loads(line) for line in found.path.read_text().splitlines()]
    assert [(row["text"][0], len(row["text"]), row.keys()) for row in rows] == [
        ("a", 9_000_000, {"text"}),
        ("b", 9_000_000, {"text"}),
    ]
    assert not found.is_chat


@pytest.mark.parametrize(
    ("content", "told"), [(None, "does not exist"), (b"\n", "has no rows"), (b"", "has no rows")]
)
def test_no_rows_are_said(tmp_path: Path, content: bytes | None, told: str) -> None:
    if content is not None:
        (tmp_path / "rows.jsonl").write_bytes(content)
    with pytest.raises((DataError, Refusal), match=told):
        rows_of("rows.jsonl", "sft", contract(tmp_path))


def test_a_model_in_s3_comes_to_the_node_without_code_and_pickles(tmp_path: Path, s3: Any) -> None:
    save_file({"weight": torch.ones(3)}, tmp_path / "weights")
    s3.create_bucket(Bucket="mine")
    bodies = {
        "config.json": b"{}",
        "tokenizer.json": b"{}",
        "model.safetensors": (tmp_path / "weights").read_bytes(),
        "modeling.py": b"raise SystemExit",
        "training_args.bin": b"pickle",
    }
    for name, body in bodies.items():
        s3.put_object(Bucket="mine", Key=f"llama/{name}", Body=body)
    found = model_of("s3://mine/llama", contract())
    assert {path.name for path in found.folder.iterdir()} == {
        "config.json",
        "tokenizer.json",
        "model.safetensors",
    }
    assert (found.folder / "model.safetensors").read_bytes() == bodies["model.safetensors"]
