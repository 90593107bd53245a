"""What cannot be estimated: one line with what it is, the value, what is allowed, and what works instead."""

from __future__ import annotations

from slipway.jobs.words.errors import SlipwayError


class CannotEstimate(SlipwayError):
    exit_code = 2
