"""What is wrong with a document that somebody wrote for Image Builder."""

from __future__ import annotations


class BadDocument(Exception):
    """Tells the author of a document what is wrong with it."""
