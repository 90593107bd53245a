"""What a file is, told by how it begins, and where its text may be cut: between documents if that can be."""

from __future__ import annotations

from slipway.containers.data.errors import DataError
from slipway.containers.data.tokens.engine import TAGGED

HEAD_BYTES = 4096
TAG = b"<doc "
# What stands between two documents, and how much of it belongs to the first.
MARKS = {0: ((b"\n\n", 2), (b"\n\r\n", 3)), TAGGED: ((b"\n" + TAG, 1),)}
LONGEST_MARK_BYTES = 3
BLANKS = (b"\n", b" ", b"\t")
MAGIC = (
    (b"\xef\xbb\xbf", "begins with a byte order mark", "remove its first three bytes: tail -c +4"),
    (b"\xff\xfe", "is UTF-16", "convert it: iconv -f UTF-16 -t UTF-8"),
    (b"\xfe\xff", "is UTF-16", "convert it: iconv -f UTF-16 -t UTF-8"),
    (b"\x1f\x8b", "is compressed by gzip", "unpack it first"),
    (b"BZh", "is compressed by bzip2", "unpack it first"),
    (b"PK\x03\x04", "is a zip archive", "unpack it first"),
    (b"\xfd7zXZ", "is compressed by xz", "unpack it first"),
    (b"\x28\xb5\x2f\xfd", "is compressed by zstd", "unpack it first"),
    (b"\x89HDF", "is HDF5", "give text"),
    (b"PAR1", "is Parquet", "write its text column to a file"),
)


def style_of(name: str, head: bytes) -> int:
    """Return TAGGED for what WikiExtractor writes, 0 for other text; refuse what is not text."""
    for magic, what, hint in MAGIC:
        if head.startswith(magic):
            raise DataError(f"{name} {what}", hint=hint)
    zeros = head.count(0)
    if zeros * 4 > len(head):
        raise DataError(
            f"{name} is not text: {zeros} of its first {len(head)} bytes are zero",
            hint="if it is UTF-16, convert it: iconv -f UTF-16LE -t UTF-8",
        )
    return TAGGED if head.startswith(TAG) else 0


def next_document(data: bytes, at: int, style: int) -> int:
    """Return the first place from `at` on where a document begins, or -1; a mark may begin before `at`."""
    found = [
        begin + length
        for mark, length in MARKS[style]
        if (begin := data.find(mark, max(0, at - length))) >= 0
    ]
    return min(found, default=-1)


def next_blank(data: bytes, at: int) -> int:
    """Return the place after the next end of line, else after the next blank, else the next character."""
    for blank in BLANKS:
        end = data.find(blank, at) + 1
        if end:
            return end
    end = at
    while end < min(at + 3, len(data)) and data[end] & 0xC0 == 0x80:
        end += 1
    return end


def last_cut(data: bytes, style: int) -> int:
    """Return the last place where a document begins, else after the last blank, else the last character."""
    found = max(
        (begin + length for mark, length in MARKS[style] if (begin := data.rfind(mark)) >= 0), default=0
    )
    for blank in BLANKS:
        found = found or data.rfind(blank) + 1
    return found or _last_character(data)


def _last_character(data: bytes) -> int:
    begin = len(data) - 1
    while begin > max(1, len(data) - 4) and data[begin] & 0xC0 == 0x80:
        begin -= 1
    return begin
