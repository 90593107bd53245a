"""The error that ends a user's own app if a cluster cannot be added to it."""

from __future__ import annotations

from slipway.jobs.words.errors import SlipwayError, in_lines


class RefusedCluster(SlipwayError, SystemExit):
    """Ends an app that does not catch it as our commands end: with its message and no traceback."""

    def __init__(self, error: SlipwayError) -> None:
        super().__init__(error.message, hint=error.hint)
        self.code = in_lines(error)
