"""Every article of a dump becomes one document of its passages, wherever the file is cut."""

from __future__ import annotations

import bz2
import gzip
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slipway.containers.data.corpus import parts as streams
from slipway.containers.data.corpus.documents import CorpusDocument, documents_of, passages
from slipway.containers.data.corpus.parts import parts_of
from slipway.containers.data.errors import DataError
from slipway.containers.data.sources.sources import FetchSource, Source, SourceFile, local_source
from tests.containers.data.corpus.dumps import articles, cut_anywhere, multistream, page, xml

pytest.importorskip("mwparserfromhell", reason="the extra 'training' is not installed")

PAGES = articles(31)
WHOLE = xml(PAGES)


def held(name: str, content: bytes) -> Source:
    return FetchSource((SourceFile(name, len(content)),), lambda file, start, stop: content[start:stop])


def documents(source: Source, parts: int = 1) -> list[CorpusDocument]:
    cut = parts_of(source, parts)
    return [document for part in cut for piece in part for document in documents_of(source, piece, "text")]


EXPECTED = documents(held("dump.xml", WHOLE))


def test_only_articles_have_passages() -> None:
    assert len(EXPECTED) == 31
    assert [document.title for document in EXPECTED if document.paragraphs] == [
        f"Article {number}" for number in range(31) if number % 5 < 3
    ]
    assert EXPECTED[1].paragraphs == (
        "Passage 0 of article 1. It says <page> & more.",
        "Passage 1 of article 1. It says <page> & more.",
    )


@settings(max_examples=60)
@given(parts=st.integers(1, 40), together=st.integers(1, 12), block=st.integers(20, 4000))
def test_a_dump_gives_the_same_documents_however_it_is_cut(parts: int, together: int, block: int) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(streams, "BLOCK_BYTES", block)
        patched.setattr(streams, "_UNPACKED_BYTES", block)
        for name, content in (
            ("dump.xml", WHOLE),
            ("dump-multistream1.xml-p1p41242.bz2", multistream(PAGES, together)),
            ("dump.xml.bz2", bz2.compress(WHOLE)),
            ("dump.xml.bz2", cut_anywhere(WHOLE, 97 * together)),
            ("dump.xml.gz", gzip.compress(WHOLE)),
        ):
            assert documents(held(name, content), parts) == EXPECTED


@settings(max_examples=60)
@given(parts=st.integers(1, 30), texts=st.lists(st.text(max_size=60), min_size=1, max_size=12))
def test_documents_by_line_are_the_same_however_the_file_is_cut(parts: int, texts: list[str]) -> None:
    lines = "".join(json.dumps({"text": text}, ensure_ascii=len(text) % 2 == 0) + "\n" for text in texts)
    source = held("documents.jsonl", lines.encode())
    assert documents(source, parts) == documents(source)
    assert len(documents(source)) == len(texts)


def test_text_is_parted_by_blank_lines() -> None:
    content = "One.\nTwo\r\nthree.\n\n\nFour\u2028five.\n".encode()
    assert [document.paragraphs for document in documents(held("a.txt", content))] == [
        ("One.", "Two", "three."),
        ("Four", "five."),
    ]


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("d.xml.bz2", bz2.compress(WHOLE)[:-200], "d.xml.bz2 ends in the middle of the bzip2 stream"),
        ("d.xml.bz2", multistream(PAGES[:4])[:-40], "d.xml.bz2 ends in the middle of"),
        (
            "d.xml",
            WHOLE[: WHOLE.index(b"Article 6") + 400],
            "d.xml ends in the middle of the article 'Article 6'",
        ),
        ("d.xml", WHOLE[: -len("</mediawiki>\n")], "d.xml ends in the middle of the dump"),
        ("d.xml.gz", gzip.compress(WHOLE)[:-300], "d.xml.gz ends in the middle of its gzip stream"),
        ("d.xml", xml([page("A", "b").replace("</revision>", "")]), "holds a page that is not XML"),
        ("d.jsonl", b'{"text": "a"}\n{"body": "b"}\n', "without text in 'text'; it has 'body'; set field"),
        ("d.jsonl", b"a\n", "holds a line that is not JSON: 'a'"),
        ("d.txt", b"caf\xe9\n", "not UTF-8: byte 3 (0xe9)"),
        ("d.pdf", b"%PDF", "the file type of d.pdf is not supported; names end in .xml"),
        ("d.txt", b"", "the input is empty"),
    ],
)
def test_what_is_wrong_with_an_input_is_told_in_a_line(name: str, content: bytes, told: str) -> None:
    with pytest.raises(DataError) as refused:
        documents(held(name, content), 3)
    assert told in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_damaged_stream_is_named_with_its_place() -> None:
    content = bytearray(multistream(PAGES))
    content[len(content) // 2] ^= 0x10
    with pytest.raises(DataError, match=r"is damaged in the bzip2 stream at byte \d+"):
        documents(held("d.xml.bz2", bytes(content)), 5)


def test_small_files_share_a_part(tmp_path: Path) -> None:
    for number in range(30):
        (tmp_path / f"{number:02}.txt").write_text("A sentence here. Another there.\n")
    assert 2 <= len(parts_of(local_source(tmp_path), 3)) <= 4
    assert len(documents(local_source(tmp_path), 3)) == 30


# Of an article's markup, its passages are left and nothing else.

ARTICLE = """{{Infobox person|name=Foo|birth={{birth date|1950|1|1}}|image=[[File:x.jpg|A [[nested]] one]]}}
'''Foo Bar''' (born {{circa|1950}}) is a [[physicist|theoretical ''physicist'']].<ref>{{a|b}}</ref> She lives
in [[Paris]], [http://e.org the capital] of France&nbsp;&mdash; see [[:Category:Foo]].
__NOTOC__
== Life ==
[[File:Foo.jpg|thumb|left|Foo in [[1970]]]]
In 1970 she moved to [[Berlin]]<!-- hidden -->.<br />It <small>rained</small>.
* item ''one'' [[here]]
# item two
: indented
{| class="wikitable"
! a !! b
|-
| 1 || 2
|}
<math>E = mc^2</math> is known. [[de:Foo]]

== References ==
{{reflist}}
[[Category:Physicists]]
"""


def test_the_passages_of_an_article() -> None:
    assert passages(ARTICLE) == [
        "Foo Bar (born) is a theoretical physicist. She lives",
        "in Paris, the capital of France — see.",
        "In 1970 she moved to Berlin.",
        "It rained.",
        "is known.",
    ]


@pytest.mark.parametrize(
    "markup",
    ["", "{{", "[[", "{|", "<ref>", "'''", "[[a|b", "{{a|{{b|[[c", "&#x110000;", "<", "\x00", "=" * 50],
)
def test_markup_that_is_not_closed_ends(markup: str) -> None:
    assert isinstance(passages(f"Before. {markup}\nAfter."), list)
