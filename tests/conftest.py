"""A yard that a test starts ends with the process of that test; the summary counts skips by reason."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator

import pytest

from slipway.yard.lifetime import OWNER_VARIABLE

os.environ[OWNER_VARIABLE] = str(os.getpid())  # before fixtures of a session copy the environment


@pytest.hookimpl(wrapper=True, tryfirst=True)  # the outermost, so that only pytest's closing line comes later
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> Iterator[None]:
    yield
    terminalreporter.line(count_skips(terminalreporter.getreports("skipped")))


def count_skips(reports: Iterable[pytest.TestReport | pytest.CollectReport]) -> str:
    """Say in one line how many tests were skipped for each reason, the most frequent first."""
    counted = Counter(reason_of_skip(report) for report in reports)
    named = [
        f"{count} × {reason}"
        for reason, count in sorted(counted.items(), key=lambda item: (-item[1], item[0]))
    ]
    return f"skips by reason: {'; '.join(named) or 'none'}"


def reason_of_skip(report: pytest.TestReport | pytest.CollectReport) -> str:
    if isinstance(report.longrepr, tuple):  # path, line, and "Skipped: " with the reason
        return report.longrepr[2].removeprefix("Skipped: ")
    return str(report.longrepr)
