"""Map the tokens of a corpus for the ranks of a node: prepared before, or made from text once per node.

The ranks of a node share the work. The tokens lie in the temporary folder of the node, named by the digest of
everything that decides them, so the next attempt there reuses them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from slipway.containers.data.corpus.parts import parts_of
from slipway.containers.data.errors import DataError
from slipway.containers.data.megatron.engines import END_OF_DOCUMENT, BpeVocabulary, best_engine
from slipway.containers.data.megatron.index import TokenIndex, index_path
from slipway.containers.data.megatron.work import (
    MANIFEST,
    TOKENS,
    TokenWork,
    begin_tokens,
    is_made,
    merge_tokens,
    merged_tokens,
)
from slipway.containers.data.preparation import make_parts
from slipway.containers.data.shared_folder import KEPT_SECONDS, changed_at, wait_for_all, workers_of
from slipway.containers.data.sources.locations import is_remote, open_source
from slipway.containers.data.text.documents import digest_of, read_json
from slipway.containers.runtime.contract.contract import LaunchContract
from slipway.containers.runtime.node_folders import hold


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeTokens:
    """Hold mapped tokens, and the digest that identifies them."""

    index: TokenIndex
    digest: str


def node_tokens(place: str, vocabulary: BpeVocabulary, *, field: str, contract: LaunchContract) -> NodeTokens:
    """Map the tokens of a path or S3 address; the ranks of the node make them first if they are missing.

    `field` names the field of JSON documents that holds the text.
    """
    if not is_remote(place) and index_path(Path(place) / TOKENS).exists():
        return _prepared(Path(place), vocabulary)
    source = open_source(place, bucket_owner=contract.account)
    engine, _ = best_engine(vocabulary)
    work = TokenWork(
        source=source,
        folder=Path(),
        parts=tuple(parts_of(source)),
        field=field,
        vocabulary=vocabulary.digest,
        vocabulary_size=vocabulary.size,
        end_of_document=vocabulary.id_of(END_OF_DOCUMENT),
        engine=engine,
    )
    decides = digest_of([work.plan, changed_at(source)])
    work = replace(work, folder=hold("tokens-", decides, unused_seconds=KEPT_SECONDS))
    manifest = merged_tokens(work)
    if manifest is None:
        # Make this rank's share of the parts, wait for the other ranks' shares, and merge all.
        begin_tokens(work, vocabulary.json)
        numbers = range(len(work.parts))
        make_parts(work, numbers[contract.local_rank :: contract.local_world], workers_of(contract), "tokens")
        wait_for_all(numbers, partial(is_made, work), f"parts of {work.folder} are missing")
        manifest = merge_tokens(work)
        assert manifest is not None, "all parts are made"
    return _mapped(work.folder, manifest)


def _prepared(folder: Path, vocabulary: BpeVocabulary) -> NodeTokens:
    """Map what prepare_tokens made; refuse tokens of another vocabulary, whose ids mean other words."""
    path = folder / MANIFEST
    manifest = read_json(path) if path.exists() else {}
    found = manifest.get("vocabulary_sha256", f"that {MANIFEST} does not name")
    if found != vocabulary.digest:
        raise DataError(
            f"{folder} holds tokens of the vocabulary {found}, but the model's is {vocabulary.digest}",
            hint="prepare the tokens with the model's own tokenizer.json",
        )
    return _mapped(folder, manifest)


def _mapped(folder: Path, manifest: Mapping[str, object]) -> NodeTokens:
    index = TokenIndex.open(folder / TOKENS)
    return NodeTokens(index=index, digest=digest_of([index.identity, manifest.get("parts_sha256")]))
