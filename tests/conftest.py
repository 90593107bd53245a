"""Fixtures of all tests: yards end with their test's process, failures do not spread, skips are told."""

from __future__ import annotations

import gc
import os
import re
import signal
import sys
import warnings
from collections import Counter
from collections.abc import Generator, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers
from hypothesis.internal.constants_ast import Constants

from slipway.yard.state import OWNER_VARIABLE
from tests.fault_clock import FaultClock
from tests.installed import build_once

if TYPE_CHECKING:
    from tests.browser import Browser
    from tests.yard.conftest import RunningYard

os.environ[OWNER_VARIABLE] = str(os.getpid())  # before fixtures of a session copy the environment

# The CDK's own validator costs seconds a synthesis; test_gates.py and test_clusters.py run it. It is off from
# here on, since the CDK's process starts when the first test imports aws_cdk and keeps its environment.
os.environ["CDK_VALIDATION"] = "false"

# Workers share the processors: the threads of two torches on one processor spin while they wait for each
# other, and a training takes ten times as long. This is set before torch is imported, also for programs that
# tests start.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Tests that run in the background may ignore these signals, and their programs inherit that: a script that a
# test interrupts would never notice.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

# Collected tests stay: searching them for garbage again and again takes a third of a worker's start.
gc.disable()

# A test promises nothing about this machine's speed, and tries the same values on every machine.
settings.register_profile(
    "everywhere", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("everywhere")
# Hypothesis would parse every module of ours that is loaded, in each worker, to draw numbers and words that
# stand there: a fifth of a worker's start, and other values wherever other modules are loaded.
providers._get_local_constants = Constants  # private; called without arguments

# Set-up installs what tests import: without it nearly all tests would be skipped.
MISSING_PACKAGE = re.compile(r"could not import|not installed here|torch is not installed|the extra '")


def pytest_collection_finish() -> None:
    read_models_once()
    gc.freeze()  # a worker has a million objects by now, which no test can make garbage
    gc.enable()


def read_models_once() -> None:
    """Cache botocore's descriptions of AWS, which each of thousands of sessions would read again.

    It took 45 % of what tests of the yard and of jobs asked of a processor.
    """
    from botocore.loaders import JSONFileLoader

    original, kept = JSONFileLoader.load_file, {}

    def load(self: JSONFileLoader, path: str) -> Any:
        if path not in kept:
            if (found := original(self, path)) is None:
                return None
            kept[path] = found
        return kept[path]

    JSONFileLoader.load_file = load


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the wheel of this checkout, which the workers of a run share."""
    own = tmp_path_factory.getbasetemp()
    return build_once(own.parent if "PYTEST_XDIST_WORKER" in os.environ else own)


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """Start one browser for all tests of this worker: each opens its page in a tab of its own."""
    from tests.browser import Browser

    browser = Browser(tmp_path_factory.mktemp("browser"))
    yield browser
    browser.close()


@pytest.fixture(scope="session")
def yard_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningYard]:
    """Start one yard for all tests of this worker without special needs."""
    from slipway.yard import process
    from tests.yard.conftest import start

    home = tmp_path_factory.mktemp("yard") / "home"
    yield start(home)
    process.down(folder=home)


@pytest.fixture(scope="module")
def shared_yard(yard_process: RunningYard, request: pytest.FixtureRequest) -> Iterator[RunningYard]:
    """The worker's yard, empty when a module begins, and again when it has ended."""
    from tests.yard.conftest import empty
    from tests.yard.leftovers import contents, left_behind

    empty(yard_process)
    before = contents(yard_process, yard_process.home)
    yield yard_process
    empty(yard_process)
    left = left_behind(before, contents(yard_process, yard_process.home))
    assert not left, f"{request.node.nodeid} left in the yard of all tests: {left}"


@pytest.fixture
def fault(request: pytest.FixtureRequest) -> FaultClock:
    """Measure what happens after a fault, for docs/faults.md."""
    return FaultClock(request.node.user_properties)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    failed = item.session.testsfailed
    done = yield
    if item.session.testsfailed > failed:
        forget_failed_test()
    return done


def forget_failed_test() -> None:
    """Close what a failed test's traceback holds open: otherwise the next test would fail."""
    for name in ("last_exc", "last_type", "last_value", "last_traceback"):
        vars(sys).pop(name, None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


def pytest_sessionfinish(session: pytest.Session) -> None:
    terminal = session.config.pluginmanager.get_plugin("terminalreporter")
    skipped = terminal.getreports("skipped") if terminal else []  # there is none in a worker
    if session.exitstatus == pytest.ExitCode.OK and any(map(is_for_missing_package, skipped)):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.hookimpl(wrapper=True, tryfirst=True)  # the outermost: only pytest's last line comes later
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> Iterator[None]:
    yield
    skipped = terminalreporter.getreports("skipped")
    if any(map(is_for_missing_package, skipped)):
        terminalreporter.line("error: tests lack a package; install all of them: scripts/test --collect-only")
    terminalreporter.line(count_skips(skipped))


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


def is_for_missing_package(report: pytest.TestReport | pytest.CollectReport) -> bool:
    return bool(MISSING_PACKAGE.search(reason_of_skip(report)))
