"""A corpus is turned into tokens once on each node, or was before; every rank maps them into memory."""

from __future__ import annotations

import json
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from slipway.containers.data.errors import DataError
from slipway.containers.data.megatron import work
from slipway.containers.data.megatron.engines import (
    END_OF_DOCUMENT,
    BpeVocabulary,
    best_engine,
    open_engine,
    parse_bpe_vocabulary,
)
from slipway.containers.data.megatron.index import TokenIndex
from slipway.containers.data.megatron.node_tokens import node_tokens
from slipway.containers.data.samples.texts import sample_vocabulary
from slipway.containers.data.text.documents import read_json, write_json
from slipway.containers.recipes.prepare_tokens import train as prepare_tokens
from slipway.containers.recipes.prepare_tokens.config import decode_arguments
from slipway.containers.runtime.contract.contract import LaunchContract
from slipway.containers.runtime.contract.launchers import read_contract
from slipway.containers.runtime.errors import Refusal

DOCUMENTS = [f"The {word} sat on the mat, and thought of it. " * 9 for word in ("cat", "dog", "bär")]


@pytest.fixture(autouse=True)
def of_this_test_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))


@pytest.fixture
def vocabulary() -> BpeVocabulary:
    return parse_bpe_vocabulary("sample", sample_vocabulary())


@pytest.fixture
def text(tmp_path: Path) -> Path:
    folder = tmp_path / "data" / "text"
    folder.mkdir(parents=True)
    for number, document in enumerate(DOCUMENTS):
        (folder / f"{number}.jsonl").write_text(json.dumps({"body": document}) + "\n")
    return folder


def ranks(count: int) -> list[LaunchContract]:
    alone = read_contract({})
    return [
        replace(alone, local_rank=rank, rank=rank, local_world=count, world=count) for rank in range(count)
    ]


def opened(place: Path, vocabulary: BpeVocabulary, contract: LaunchContract) -> TokenIndex:
    return node_tokens(str(place), vocabulary, field="body", contract=contract).index


def encoded(vocabulary: BpeVocabulary) -> list[int]:
    engine = open_engine(best_engine(vocabulary)[0], vocabulary.json)
    end = vocabulary.id_of(END_OF_DOCUMENT)
    return [token for ids in engine.encode(DOCUMENTS) for token in (*ids.tolist(), end)]


def test_the_ranks_of_a_node_make_each_part_once_and_map_all(
    text: Path, vocabulary: BpeVocabulary, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[int] = []
    make = work.make_tokens

    def counted(given: work.TokenWork, number: int) -> work.TokenRecord:
        made.append(number)
        return make(given, number)

    monkeypatch.setattr(work, "make_tokens", counted)
    monkeypatch.setattr("slipway.containers.data.corpus.parts.PART_BYTES", 300)
    with ThreadPoolExecutor(2) as node:
        found = list(node.map(lambda rank: opened(text, vocabulary, rank), ranks(2)))
    assert len(made) > 1
    assert sorted(made) == sorted(set(made))
    for index in found:
        assert index.tokens.tolist() == encoded(vocabulary)
        assert isinstance(index.tokens.base, np.memmap)
    monkeypatch.setattr(work, "make_tokens", None)
    assert opened(text, vocabulary, ranks(2)[1]).tokens.tolist() == encoded(vocabulary), "the next attempt"


def test_other_text_of_as_many_tokens_is_told_from_the_first(text: Path, vocabulary: BpeVocabulary) -> None:
    def digest() -> str:
        (alone,) = ranks(1)
        return node_tokens(str(text), vocabulary, field="body", contract=alone).digest

    first = digest()
    assert digest() == first
    (text / "0.jsonl").write_text(json.dumps({"body": DOCUMENTS[0].replace("cat", "dog")}) + "\n")
    assert digest() != first


@pytest.fixture
def prepared(text: Path, vocabulary: BpeVocabulary) -> Path:
    """Return what prepare_tokens makes of the text."""
    root = text.parent
    (root / "tokenizer.json").write_bytes(vocabulary.json)
    config = decode_arguments(["input=text", "field=body", "output=tokens"])
    contract = replace(read_contract({}), data=str(root))
    prepare_tokens.prepare_share(config, contract, None)  # type: ignore[arg-type]  # which closes nothing
    return root / "tokens"


def test_prepared_tokens_are_mapped_where_they_lie(prepared: Path, vocabulary: BpeVocabulary) -> None:
    found = opened(prepared, vocabulary, ranks(1)[0])
    assert found.prefix == prepared / "tokens"
    assert found.tokens.tolist() == encoded(vocabulary)
    assert not list(Path(tempfile.gettempdir()).iterdir())


@pytest.mark.parametrize("manifest", ['{"vocabulary_sha256": "00"}', None])
def test_tokens_of_another_vocabulary_are_refused(
    prepared: Path, vocabulary: BpeVocabulary, manifest: str | None
) -> None:
    path = prepared / "manifest.json"
    path.unlink() if manifest is None else path.write_text(manifest)
    with pytest.raises(
        DataError, match=r"holds tokens of the vocabulary .*; prepare the tokens with the model's"
    ):
        opened(prepared, vocabulary, ranks(1)[0])


def test_what_another_user_could_have_made_is_not_read(text: Path, vocabulary: BpeVocabulary) -> None:
    (alone,) = ranks(1)
    opened(text, vocabulary, alone).prefix.parents[1].chmod(0o777)
    with pytest.raises(Refusal, match="belongs to somebody else or may be changed by others"):
        opened(text, vocabulary, alone)


def test_ranks_that_begin_at_once_do_not_take_each_other_s_unfinished_files(tmp_path: Path) -> None:
    """A rank that lost its parts in this way ended, and the others waited for them."""
    path = tmp_path / "temporary" / "plan.json"
    with ThreadPoolExecutor(8) as node:
        list(node.map(lambda rank: write_json(path, {"rank": rank}), range(400)))
    assert read_json(path)["rank"] in range(400)
    assert [each.name for each in path.parent.iterdir()] == ["plan.json"]
