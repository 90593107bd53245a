"""The error of a job that cannot be estimated: one line with what, the value, what is allowed, what works."""

from __future__ import annotations

from slipway.jobs.words.errors import SlipwayError


class CannotEstimate(SlipwayError):
    exit_code = 2
