"""The WordPiece vocabulary of a model folder: its entries, and whether capitals count."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from slipway.containers.data.sources.ahead import read_whole
from slipway.containers.data.tokens.vocabulary import Vocabulary, parse_vocabulary
from slipway.containers.models.folder import json_bytes
from slipway.containers.models.published import TOKENIZER, VOCABULARY, ModelFolder, read_object
from slipway.containers.runtime.errors import Refusal

MOST_UNUSED_ENTRIES = 128  # rows of an embedding that no entry has: some models round their vocabulary up


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelVocabulary:
    vocabulary: Vocabulary
    is_cased: bool

    def files(self) -> dict[str, bytes]:
        """Return what a folder needs for transformers to make the same tokenizer."""
        settings: Mapping[str, object] = {
            "do_lower_case": not self.is_cased,
            "tokenizer_class": "BertTokenizer",
        }
        lines = "".join(f"{entry}\n" for entry in self.vocabulary.entries)
        return {VOCABULARY: lines.encode(), TOKENIZER: json_bytes(settings)}


def read_model_vocabulary(folder: ModelFolder) -> ModelVocabulary:
    """Read vocab.txt and what tokenizer_config.json says of capitals."""
    names = {file.name for file in folder.source.files}
    if VOCABULARY not in names:
        raise Refusal(
            f"{folder.place} has no {VOCABULARY}", hint="give a whole model directory, as a hub has it"
        )
    name = f"{folder.place}/{VOCABULARY}"
    vocabulary = parse_vocabulary(name, read_whole(folder.source, VOCABULARY))
    entries, known = len(vocabulary.entries), folder.shape.vocabulary
    if not 0 <= known - entries < MOST_UNUSED_ENTRIES:
        raise Refusal(
            f"{name} has {entries} entries, and the model knows {known}",
            hint="give the vocabulary that belongs to the model",
        )
    return ModelVocabulary(vocabulary=vocabulary, is_cased=_is_cased(folder, names, vocabulary))


def has_capitals(vocabulary: Vocabulary) -> bool:
    """Return True if an entry has a capital, which only a cased vocabulary has."""
    return any(entry != entry.lower() for entry in vocabulary.entries if not entry.startswith("["))


def _is_cased(folder: ModelFolder, names: set[str], vocabulary: Vocabulary) -> bool:
    """Return what the folder says; else judge by capitals."""
    if TOKENIZER in names:
        told = read_object(f"{folder.place}/{TOKENIZER}", read_whole(folder.source, TOKENIZER))
        if isinstance(said := told.get("do_lower_case"), bool):
            return not said
    return has_capitals(vocabulary)
