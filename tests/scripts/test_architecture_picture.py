"""The picture of the architecture can be read: in the dark, and with no word outside its box."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from scripts.architecture_picture import BOXES, HEIGHT, WIDTH, ZONES, Box, architecture_picture

WIDEST_CHARACTER = 7.0  # pixels, on average, in DejaVu Sans, the widest font that stands in for system-ui
MARGINS = 28


def test_the_picture_is_sound_and_follows_the_reader_s_colours() -> None:
    picture = architecture_picture()
    assert ElementTree.fromstring(picture).tag.endswith("svg")  # noqa: S314 - made one line above
    assert "@media (prefers-color-scheme: dark)" in picture


@pytest.mark.parametrize("box", BOXES, ids=lambda box: box.title)
def test_the_words_of_a_box_end_in_it(box: Box) -> None:
    assert max(map(len, (box.title, *box.lines))) * WIDEST_CHARACTER <= box.width - MARGINS


def test_every_box_lies_in_a_zone_and_every_zone_in_the_picture() -> None:
    for box in BOXES:
        assert [zone for zone in ZONES if zone.x < box.x and box.x + box.width < zone.x + zone.width]
    for zone in ZONES:
        assert zone.x + zone.width < WIDTH
        assert zone.y + zone.height < HEIGHT
