"""What is wrong with a document that somebody wrote for Image Builder."""

from __future__ import annotations


class BadDocument(Exception):
    """What is wrong with it, for whoever wrote it."""
