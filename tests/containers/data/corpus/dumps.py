"""Dumps as Wikimedia makes them: MediaWiki's export format 0.11, in bzip2 streams of some pages each."""

from __future__ import annotations

import bz2
from xml.sax.saxutils import escape

HEAD = """<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.11/" version="0.11" xml:lang="en">
  <siteinfo>
    <sitename>Wikipedia</sitename>
    <dbname>enwiki</dbname>
    <namespaces><namespace key="0" case="first-letter" /><namespace key="1">Talk</namespace></namespaces>
  </siteinfo>
"""
FOOT = "</mediawiki>\n"


def page(title: str, text: str, *, namespace: int = 0, redirect: str = "") -> str:
    to = f'    <redirect title="{escape(redirect)}" />\n' if redirect else ""
    return f"""  <page>
    <title>{escape(title)}</title>
    <ns>{namespace}</ns>
    <id>7</id>
{to}    <revision>
      <id>12</id>
      <timestamp>2026-10-01T00:00:00Z</timestamp>
      <model>wikitext</model>
      <format>text/x-wiki</format>
      <text bytes="{len(text)}" xml:space="preserve">{escape(text)}</text>
      <sha1>phoiac9h4m842xq45sp7s6u21eteeq1</sha1>
    </revision>
  </page>
"""


def articles(count: int) -> list[str]:
    """Make pages of different lengths, every fifth of which is not trained on."""
    found = []
    for number in range(count):
        text = "\n\n".join(
            f"Passage {at} of article {number}. It says <page> & more." for at in range(number % 7 + 1)
        )
        if number % 5 == 3:
            found.append(page(f"Talk:{number}", text, namespace=1))
        elif number % 5 == 4:
            found.append(page(f"Other {number}", "#REDIRECT [[A]]", redirect="A"))
        else:
            found.append(page(f"Article {number}", text))
    return found


def xml(pages: list[str]) -> bytes:
    return "".join([HEAD, *pages, FOOT]).encode()


def multistream(pages: list[str], together: int = 4) -> bytes:
    """Compress the head, some pages at a time, and the end, each as a stream of its own."""
    groups = ["".join(pages[at : at + together]) for at in range(0, len(pages), together)]
    return b"".join(bz2.compress(part.encode()) for part in [HEAD, *groups, FOOT])


def cut_anywhere(content: bytes, size: int) -> bytes:
    """Compress as pbzip2 does: in streams that begin and end in the middle of anything."""
    return b"".join(bz2.compress(content[at : at + size]) for at in range(0, len(content), size))
