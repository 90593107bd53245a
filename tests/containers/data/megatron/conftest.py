"""Tokens in .bin and .idx, written as preparation writes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slipway.containers.data.megatron import index

WriteTokens = Callable[..., Path]


@pytest.fixture
def write_tokens(tmp_path: Path) -> WriteTokens:
    def write(documents: Sequence[Sequence[int]], kind: type[np.integer[Any]] = np.int32) -> Path:
        prefix = tmp_path / "tokens"
        for path in (index.tokens_path(prefix), index.index_path(prefix)):
            path.unlink(missing_ok=True)
        batches = ((np.array(ids, np.int64), np.array([len(ids)])) for ids in documents)
        _, lengths = index.write_tokens(index.tokens_path(prefix), kind, batches)
        index.write_index(index.index_path(prefix), kind, [lengths])
        return prefix

    return write
