"""Tokens in .bin and .idx, written by the writer that preparation uses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slipway.containers.data.megatron.index import TokenWriter, index_path, tokens_path, write_index

WriteTokens = Callable[..., Path]


@pytest.fixture
def write_tokens(tmp_path: Path) -> WriteTokens:
    def write(documents: Sequence[Sequence[int]], kind: type[np.integer[Any]] = np.int32) -> Path:
        prefix = tmp_path / "tokens"
        with TokenWriter(tokens_path(prefix), kind) as writer:
            for ids in documents:
                writer.add(np.array(ids, np.int64), np.array([len(ids)]))
        write_index(index_path(prefix), kind, [writer.lengths])
        return prefix

    return write
