"""A small corpus and its vocabulary, made once; the compiled core in a cache of the test session's own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

# A laptop that only submits has none of these packages.
pytest.importorskip("h5py")
pytest.importorskip("isal")

from slipway.containers.data.rows.prepare import Share, prepare
from slipway.containers.data.rows.train_vocabulary import train
from slipway.containers.data.samples.texts import write_sample
from slipway.containers.data.sources.sources import local_source
from slipway.containers.data.tokens.engine import TokenSettings, Vocabulary, write_vocabulary

MakeSettings = Callable[..., TokenSettings]
SAMPLE_BYTES = 300_000


@pytest.fixture(scope="session", autouse=True)
def _cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("corpus") / "sample.txt"
    write_sample(path, seed=1, size_bytes=SAMPLE_BYTES)
    return path


@pytest.fixture(scope="session")
def vocabulary(corpus: Path) -> Vocabulary:
    return train(local_source(corpus), 1500)


@pytest.fixture(scope="session")
def vocabulary_file(vocabulary: Vocabulary, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("vocabulary") / "vocab.txt"
    write_vocabulary(vocabulary, path)
    return path


@pytest.fixture(scope="session")
def make_settings(vocabulary: Vocabulary) -> MakeSettings:
    def make(phase: int = 1, seed: int = 7, duplicates: int = 2) -> TokenSettings:
        return TokenSettings(phase=phase, vocabulary=vocabulary, seed=seed, duplicates=duplicates)

    return make


@pytest.fixture(scope="session")
def dataset(corpus: Path, make_settings: MakeSettings, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Prepared once, in three shards; tests that change it copy it first."""
    folder = tmp_path_factory.mktemp("prepared") / "dataset"
    prepare(local_source(corpus), make_settings(), folder, Share(), shards=3)
    return folder
