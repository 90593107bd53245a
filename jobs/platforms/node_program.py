"""What the programs of clusters' nodes share: a word is carried out; an error is a line and an exit code."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Mapping

from slipway.jobs.words.errors import SlipwayError

Words = Mapping[str, Callable[[argparse.Namespace], int]]

_AWS_FAILED = 1
# botocore asks for the node's role once and waits one second; a job would fail of metadata that come late.
_PATIENCE = {"AWS_METADATA_SERVICE_TIMEOUT": "5", "AWS_METADATA_SERVICE_NUM_ATTEMPTS": "5"}


def run_word(words: Words, parsed: argparse.Namespace) -> int:
    """Carry out the word that was parsed; return the program's exit code."""
    os.environ.update({name: os.environ.get(name, value) for name, value in _PATIENCE.items()})
    try:
        return words[parsed.word](parsed)
    except SlipwayError as error:
        print(f"error: {error.message}", file=sys.stderr)
        if error.hint:
            print(f"hint: {error.hint}", file=sys.stderr)
        return error.exit_code
    except Exception as error:
        if not type(error).__module__.startswith("botocore"):
            raise
        print(f"error: {parsed.word}: AWS gave no answer: {error}", file=sys.stderr)
        return _AWS_FAILED
