"""Read the documents of one stretch of an input, each as paragraphs.

Wikipedia's dumps, JSON lines and plain text are read; another format is a kind in parts.py and one row of
_READERS.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree

from slipway.containers.data.corpus.parts import CorpusPiece, UnpackedBlock, unpacked
from slipway.containers.data.errors import DataError
from slipway.containers.data.sources.sources import Source
from slipway.containers.runtime.values import shown

# A page of a dump, or a line of a file, belongs to the stretch in which it begins.
PAGE, END = b"<page>", b"</page>"  # inside text they are escaped: &lt;page&gt;
END_OF_DUMP = b"</mediawiki>"
# MediaWiki refuses articles above 2 MiB; escaping can make them several times as long.
MOST_BYTES = 64 << 20
_TAIL_BYTES = 64


def pages(name: str, blocks: Iterable[UnpackedBlock]) -> Iterator[bytes]:
    """Yield the whole pages that begin in the stretch; refuse a file that stops before its dump ends."""
    held, is_any = b"", False
    for block in blocks:
        if block.is_past:
            held = _begun(held)
            if not held:
                return
            held += block.data
            if not held.startswith(PAGE[: len(held)]):
                return  # what looked like the beginning of a page was not one
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
            hint="download the file again, and compare its checksum; finished parts are kept",
        )


def lines(name: str, blocks: Iterable[UnpackedBlock], *, is_first: bool) -> Iterator[bytes]:
    """Yield the lines that begin in the stretch; a line that begins before it belongs to another stretch."""
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
    """Yield the whole pages, and return the rest."""
    at = 0
    while (begin := held.find(PAGE, at)) >= 0 and (end := held.find(END, begin)) >= 0:
        at = end + len(END)
        yield held[begin:at]
    # Without a page, keep only the tail: it may hold the start of a mark, or the end of the dump.
    return held[begin:] if begin >= 0 else held[max(at, len(held) - _TAIL_BYTES) :]


def _begun(held: bytes) -> bytes:
    """Return the beginning of an unfinished page, which may be only the first bytes of its mark."""
    begin = held.find(PAGE)
    if begin >= 0:
        return held[begin:]
    lengths = range(len(PAGE) - 1, 0, -1)
    return next((PAGE[:length] for length in lengths if held.endswith(PAGE[:length])), b"")


def _refuse_endless(name: str, held: bytes) -> None:
    if len(held) > MOST_BYTES:
        raise DataError(
            f"{name} holds a record of more than {MOST_BYTES >> 20} MiB",
            hint="does its content match its file name?",
        )


def _title(held: bytes) -> str:
    begin, end = held.find(b"<title>"), held.find(b"</title>")
    if PAGE not in held or not 0 <= begin < end:
        return "the dump"
    title = held[begin + len(b"<title>") : end].decode("utf-8", errors="replace")
    return f"the article {title[:80]!r}"


# Documents that are lines of JSON.


def text_of(where: str, line: bytes, field: str) -> str:
    """Return the text in `field`; `where` names the line in messages."""
    try:
        found = json.loads(decoded_line(where, line))
    except (ValueError, RecursionError):
        raise DataError(
            f"{where} holds a line that is not JSON: {shown(line[:80].decode('utf-8', 'replace'))}",
            hint="each line must be one JSON object",
        ) from None
    text = found.get(field) if isinstance(found, dict) else None
    if not isinstance(text, str):
        known = ", ".join(sorted(found)[:12]) if isinstance(found, dict) else type(found).__name__
        raise DataError(
            f"{where} holds a line without text in {field!r}; it has {shown(known)}",
            hint="set field to the name of the field that holds the text",
        )
    return text


def decoded_line(where: str, line: bytes) -> str:
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(
            f"{where} holds a line that is not UTF-8: byte {error.start} (0x{line[error.start]:02x}) of it",
            hint="convert the file, for example: iconv -f LATIN1 -t UTF-8",
        ) from None


# An article's text passages: we "ignore lists, tables, and headers" (Devlin et al. 2018, section 3.1).
# mwparserfromhell reads the markup. The output of templates is lost: only the wiki itself can run them.
ARTICLES = "0"  # the namespace
_LIST = "\x00"  # marks the text of a list item, up to the end of the line
_LIST_TAGS = frozenset({"li", "dt", "dd"})
_KEPT_TAGS = frozenset(
    {"abbr", "b", "bdi", "bdo", "big", "blockquote", "center", "cite", "del", "dfn", "div", "em", "font", "i"}
    | {"ins", "kbd", "mark", "p", "poem", "q", "ruby", "s", "samp", "section", "small", "span", "strike"}
    | {"strong", "sub", "sup", "time", "tt", "u", "var"}
)
_BREAKS = frozenset({"br", "p", "div", "blockquote", "center", "section", "poem", "hr"})
_EMPTY = re.compile(r"[(\[]\s*[,;:\s]*[)\]]")
_BLANKS = re.compile(r"[ \t\u00a0]+")
_BEFORE_MARK = re.compile(r" ([,.;:!?)])")
_MARKUP = "|!{}*#:;"  # at the start of a line: the rest of a table or a list that was not closed
_QUOTES = re.compile(r"'{2,5}")
_SWITCH = re.compile(r"__[A-Z]+__")  # __NOTOC__


@dataclass(frozen=True, slots=True)
class DumpPage:
    title: str
    is_article: bool  # False for a redirect
    text: str


def read_page(name: str, page: bytes) -> DumpPage:
    try:
        # A page without a DOCTYPE cannot define entities, so it cannot be an XML bomb.
        found = ElementTree.fromstring(page)  # noqa: S314
    except ElementTree.ParseError as error:
        raise DataError(
            f"{name} holds a page that is not XML: {error}", hint="is it a MediaWiki dump?"
        ) from None
    is_article = found.findtext("ns", ARTICLES) == ARTICLES and found.find("redirect") is None
    return DumpPage(
        title=found.findtext("title") or "",
        is_article=is_article,
        text=found.findtext("revision/text") or "",
    )


def passages(text: str) -> list[str]:
    """Return an article's paragraphs, one string each. The first call imports the parser."""
    import mwparserfromhell

    # _QUOTES removes bold and italics: parsing them takes the parser a third of its time.
    code = mwparserfromhell.parse(text, skip_style_tags=True)
    found = []
    for line in _plain(code).splitlines():
        if line.startswith(_LIST):
            continue
        kept = _QUOTES.sub("", _SWITCH.sub("", line.split(_LIST)[0]))
        kept = _BEFORE_MARK.sub(r"\1", _BLANKS.sub(" ", _EMPTY.sub("", kept))).strip()
        if kept and kept[0] not in _MARKUP:
            found.append(kept)
    return found


def _plain(code: Any) -> str:
    # What _NODES lacks, such as templates and comments, gives no text.
    kinds = ((type(node).__name__, node) for node in code.nodes)
    return "".join(_NODES[kind](node) for kind, node in kinds if kind in _NODES)


def _wikilink(node: Any) -> str:
    if ":" in str(node.title):  # a file, a category or another language: [[File:…]], [[de:…]]
        return str(node.text or "") if str(node.title).startswith(":") else ""
    return _plain(node.title if node.text is None else node.text)


def _tag(node: Any) -> str:
    name = str(node.tag).strip().lower()
    if name in _LIST_TAGS:
        return _LIST + (_plain(node.contents) if node.contents else "")
    inside = _plain(node.contents) if name in _KEPT_TAGS and node.contents else ""
    return f"\n{inside}\n" if name in _BREAKS else inside


def _entity(node: Any) -> str:
    try:
        return str(node.normalize())
    except (ValueError, OverflowError):
        return ""


_NODES: Mapping[str, Callable[[Any], str]] = {
    "Text": str,
    "Wikilink": _wikilink,
    "ExternalLink": lambda node: "" if node.title is None else _plain(node.title),
    "Tag": _tag,
    "HTMLEntity": _entity,
    "Heading": lambda node: "\n",
}


_ENDS = re.compile(r"\r\n?|[\u2028\u2029\x0b\x0c\x85]")


@dataclass(frozen=True, slots=True)
class CorpusDocument:
    title: str
    paragraphs: tuple[str, ...]  # empty if the page is not an article


def documents_of(source: Source, piece: CorpusPiece, field: str) -> Iterator[CorpusDocument]:
    """Yield the documents that begin in the stretch; for JSON, `field` names the field with the text."""
    return _READERS[piece.kind](source, piece, field)


def _of_dump(source: Source, piece: CorpusPiece, field: str) -> Iterator[CorpusDocument]:
    name = piece.piece.name
    for found in pages(name, unpacked(source, piece.piece)):
        page = read_page(name, found)
        yield CorpusDocument(page.title, tuple(passages(page.text)) if page.is_article else ())


def _of_lines(source: Source, piece: CorpusPiece, field: str) -> Iterator[CorpusDocument]:
    name = piece.piece.name
    for line in lines(name, unpacked(source, piece.piece), is_first=piece.piece.start == 0):
        if line.strip():
            yield CorpusDocument("", _paragraphs(text_of(name, line, field)))


def _of_text(source: Source, piece: CorpusPiece, field: str) -> Iterator[CorpusDocument]:
    """Yield documents separated by blank lines; a document that crosses two parts becomes two."""
    name = piece.piece.name
    held: list[str] = []
    for line in lines(name, unpacked(source, piece.piece), is_first=piece.piece.start == 0):
        if found := _paragraphs(decoded_line(name, line)):
            held.extend(found)
        elif held:
            yield CorpusDocument("", tuple(held))
            held = []
    if held:
        yield CorpusDocument("", tuple(held))


_READERS: Mapping[str, Callable[[Source, CorpusPiece, str], Iterator[CorpusDocument]]] = {
    "dump": _of_dump,
    "lines": _of_lines,
    "text": _of_text,
}


def _paragraphs(text: str) -> tuple[str, ...]:
    return tuple(line for raw in _ENDS.sub("\n", text).split("\n") if (line := raw.strip()))
