"""An article's text passages: we "ignore lists, tables, and headers" (Devlin et al. 2018, section 3.1).

The markup is read by mwparserfromhell. What templates would print is lost: they are programs that only the
wiki itself can run.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any
from xml.etree import ElementTree

from slipway.containers.data.errors import DataError

ARTICLES = "0"  # the namespace
_LIST = "\x00"  # begins what a list item holds, until its line ends
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
_MARKUP = "|!{}*#:;"  # at a line's beginning: what is left of a table or a list that was not closed
_QUOTES = re.compile(r"'{2,5}")
_SWITCH = re.compile(r"__[A-Z]+__")  # __NOTOC__


@dataclass(frozen=True, slots=True)
class DumpPage:
    title: str
    is_article: bool  # and no redirect
    text: str


def read_page(name: str, page: bytes) -> DumpPage:
    try:
        # A page alone has no DOCTYPE, so it can define no entities.
        found = ElementTree.fromstring(page)  # noqa: S314
    except ElementTree.ParseError as error:
        raise DataError(
            f"{name} holds a page that is not XML: {error}", hint="is it a dump of pages?"
        ) from None
    is_article = found.findtext("ns", ARTICLES) == ARTICLES and found.find("redirect") is None
    return DumpPage(
        title=found.findtext("title") or "",
        is_article=is_article,
        text=found.findtext("revision/text") or "",
    )


def passages(text: str) -> list[str]:
    """Return an article's paragraphs, one string each. Import of the parser: on the first call."""
    lines = (_tidied(line) for line in _plain(_parse(text)).splitlines() if not line.startswith(_LIST))
    return [line for line in lines if line and line[0] not in _MARKUP]


def _tidied(line: str) -> str:
    text = _QUOTES.sub("", _SWITCH.sub("", line.split(_LIST)[0]))
    return _BEFORE_MARK.sub(r"\1", _BLANKS.sub(" ", _EMPTY.sub("", text))).strip()


@cache
def _parser() -> Any:
    import mwparserfromhell

    return mwparserfromhell


def _parse(text: str) -> Any:
    # Bold and italics are left to a pattern above: their tags take the parser a third of its time.
    return _parser().parse(text, skip_style_tags=True)


def _plain(code: Any) -> str:
    return "".join(_of_nodes(code))


def _of_nodes(code: Any) -> Iterator[str]:
    for node in code.nodes:
        yield _NODES.get(type(node).__name__, _nothing)(node)


def _nothing(node: Any) -> str:
    """Return no text: templates, their arguments, and comments."""
    return ""


def _wikilink(node: Any) -> str:
    if ":" in str(node.title):  # a file, a category, another language: [[File:…]], [[de:…]]
        return str(node.text or "") if str(node.title).startswith(":") else ""
    return _plain(node.title if node.text is None else node.text)


def _external_link(node: Any) -> str:
    return "" if node.title is None else _plain(node.title)


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
    "ExternalLink": _external_link,
    "Tag": _tag,
    "HTMLEntity": _entity,
    "Heading": lambda node: "\n",
}
