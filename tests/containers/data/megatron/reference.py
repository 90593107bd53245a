"""A reader of .bin and .idx written from the format's description alone: nothing of ours."""

from __future__ import annotations

import struct
from pathlib import Path

KINDS = {1: "B", 2: "b", 3: "h", 4: "i", 5: "q", 8: "H"}


def read_documents(prefix: Path) -> list[list[int]]:
    """Return the ids of each document."""
    index = prefix.with_name(f"{prefix.name}.idx").read_bytes()
    data = prefix.with_name(f"{prefix.name}.bin").read_bytes()
    assert index[:9] == b"MMIDIDX\x00\x00"
    assert struct.unpack_from("<Q", index, 9) == (1,)
    kind = KINDS[index[17]]
    sequences, starts = struct.unpack_from("<QQ", index, 18)
    lengths = struct.unpack_from(f"<{sequences}i", index, 34)
    pointers = struct.unpack_from(f"<{sequences}q", index, 34 + 4 * sequences)
    documents = struct.unpack_from(f"<{starts}q", index, 34 + 12 * sequences)
    assert len(index) == 34 + 12 * sequences + 8 * starts
    return [
        [
            token
            for sequence in range(documents[number], documents[number + 1])
            for token in struct.unpack_from(f"<{lengths[sequence]}{kind}", data, pointers[sequence])
        ]
        for number in range(starts - 1)
    ]
