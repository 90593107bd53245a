"""Pages of a dump and lines of a file, each by the rank in whose stretch it begins."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator

from slipway.containers.data.corpus.streams import UnpackedBlock
from slipway.containers.data.errors import DataError

PAGE, END = b"<page>", b"</page>"  # in text these stand escaped, as &lt;page&gt;
END_OF_DUMP = b"</mediawiki>"
# MediaWiki itself takes no article above 2 MiB; what is escaped may be some times that.
MOST_BYTES = 64 << 20
_TAIL_BYTES = 64


def pages(name: str, blocks: Iterable[UnpackedBlock]) -> Iterator[bytes]:
    """Yield the pages that begin in the stretch, whole; at the file's end, make sure that the dump ends."""
    held, is_any = b"", False
    for block in blocks:
        if block.is_past:
            held = _begun(held)
            if not held:
                return
            held += block.data
            if not held.startswith(PAGE[: len(held)]):
                return  # it was no page that began there
            if END in held:
                yield held[: held.index(END) + len(END)]
                return
        else:
            held = yield from _whole_pages(held + block.data)
        is_any = True
        _refuse_endless(name, held)
    if is_any and END_OF_DUMP not in held:
        raise DataError(
            f"{name} ends in the middle of {_title(held)}",
            hint="get the file again, and compare its checksum; the parts that are made are kept",
        )


def lines(name: str, blocks: Iterable[UnpackedBlock], *, is_first: bool) -> Iterator[bytes]:
    """Yield the lines that begin in the stretch; one that begins before it is another rank's."""
    held, skips = b"", not is_first
    for block in blocks:
        first, *more = block.data.split(b"\n")
        held += first
        _refuse_endless(name, held)
        for line in more:
            if not skips:
                yield held
            held, skips = line, False
            if block.is_past:
                return
    if held and not skips:
        yield held


def _whole_pages(held: bytes) -> Generator[bytes, None, bytes]:
    """Yield the pages that are whole, and return what is left."""
    at = 0
    while (begin := held.find(PAGE, at)) >= 0 and (end := held.find(END, begin)) >= 0:
        at = end + len(END)
        yield held[begin:at]
    # Without a page, only what may be half a mark, or the end of the dump, is of use.
    return held[begin:] if begin >= 0 else held[max(at, len(held) - _TAIL_BYTES) :]


def _begun(held: bytes) -> bytes:
    """Return what is held of a page that begins and does not end in it, be it half of its mark."""
    begin = held.find(PAGE)
    if begin >= 0:
        return held[begin:]
    lengths = range(len(PAGE) - 1, 0, -1)
    return next((PAGE[:length] for length in lengths if held.endswith(PAGE[:length])), b"")


def _refuse_endless(name: str, held: bytes) -> None:
    if len(held) > MOST_BYTES:
        raise DataError(
            f"{name} holds a record of more than {MOST_BYTES >> 20} MiB", hint="is it what its name says?"
        )


def _title(held: bytes) -> str:
    begin, end = held.find(b"<title>"), held.find(b"</title>")
    if PAGE not in held or not 0 <= begin < end:
        return "the dump"
    title = held[begin + len(b"<title>") : end].decode("utf-8", errors="replace")
    return f"the article {title[:80]!r}"
