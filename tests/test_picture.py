"""The picture of the architecture can be read in dark mode, and has no word outside its box."""

from __future__ import annotations

from collections.abc import Iterator
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from tests.architecture.tracked import ROOT

PICTURE = (ROOT / "docs" / "architecture.svg").read_text(encoding="utf-8")
WIDEST_CHARACTER = 7.0  # pixels, on average, in DejaVu Sans, the widest font that stands in for system-ui
MARGIN = 14


def elements() -> list[Element]:
    return list(ElementTree.fromstring(PICTURE))  # noqa: S314 - it is ours


def rectangles(*looks: str) -> list[Element]:
    return [each for each in elements() if each.get("class") in looks]


def is_within(inner: Element, outer: Element) -> bool:
    (left, top, right, bottom), (x, y, end, low) = edges(outer), edges(inner)
    return left <= x and top <= y and end <= right and low <= bottom


def edges(rectangle: Element) -> tuple[int, int, int, int]:
    x, y, width, height = (int(rectangle.get(name, 0)) for name in ("x", "y", "width", "height"))
    return x, y, x + width, y + height


def words_in_boxes() -> Iterator[tuple[str, Element]]:
    """Yield each text with the box that was drawn last before it."""
    box = None
    for each in elements():
        if each.get("class") in ("room", "inner"):
            box = each
        elif each.tag.endswith("polyline"):
            return  # arrows follow the boxes
        elif box is not None:
            yield each.text or "", box


def test_the_picture_follows_the_reader_s_colours() -> None:
    assert "@media (prefers-color-scheme: dark)" in PICTURE


def test_every_folder_of_the_picture_is_there() -> None:
    folders = [each.text or "" for each in elements() if each.get("class") == "folder"]
    assert len(folders) > 4
    assert [folder for folder in folders if not (ROOT / folder).is_dir()] == []


def test_the_words_of_a_box_end_in_it() -> None:
    found = list(words_in_boxes())
    assert len(found) > len(rectangles("room", "inner"))
    for words, box in found:
        left, _, right, _ = edges(box)
        assert len(words) * WIDEST_CHARACTER <= right - left - 2 * MARGIN, words


def test_every_box_lies_in_a_zone_and_every_zone_in_the_picture() -> None:
    zones = rectangles("zone")
    assert zones
    for box in rectangles("room", "inner"):
        assert any(is_within(box, zone) for zone in zones)
    for zone in zones:
        assert is_within(zone, rectangles("paper")[0])
