"""Throw bytes at the compiled core: python -m tests.containers.data.fuzz_core VOCABULARY [ROUNDS]

test_compiled runs it under sanitizers. What is no UTF-8 reaches the core only here: the pipeline refuses it.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

from slipway.containers.data.tokens.engine import RowBlock, TokenSettings, read_vocabulary
from slipway.containers.data.tokens.engine_native import NativeEngine

ROUNDS = 300
PARTS = (b"\n", b"\n\n", b" ", b". ", b"The ", b"<doc >\n", b"\xe2\x80\x9d", b"x" * 70, b"\xe1\xac\x84" * 40)


def text(source: random.Random) -> bytes:
    kinds = (
        lambda: source.randbytes(source.randrange(40)),
        lambda: source.choice(PARTS),
        lambda: "".join(
            chr(source.choice((source.randrange(0xD800), 0x1D165, 0x302E, 0xAC01))) for _ in range(9)
        ).encode(),
    )
    return b"".join(source.choice(kinds)() for _ in range(source.randrange(200)))


def main(vocabulary: Path, rounds: int) -> None:
    source, rows = random.Random(1), 0  # noqa: S311  # a fuzzer
    for phase in (1, 2):
        settings = TokenSettings(phase=phase, vocabulary=read_vocabulary(vocabulary), seed=1, duplicates=3)
        engine = NativeEngine(settings)
        for number in range(rounds):
            if number % 3 == 0:
                engine.clear()
            engine.add(text(source), source.randrange(4))
            count = engine.pair(number)
            block = RowBlock(count, settings.row_tokens, settings.predictions)
            engine.fill(0, count, block, 0)
            rows += count
    print(f"{rows} rows")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else ROUNDS)
