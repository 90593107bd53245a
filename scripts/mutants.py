"""Remove one protection and see the test of its fault fail: `python -m scripts.mutants [F15 …]`.

A row of docs/lists/protections.csv names the protection of a fault: a text that occurs once in a file, its
replacement, and the test that then fails. First the test must pass with the protection. Then the file is
changed while the test runs, so nothing else should run in this checkout meanwhile. The results are kept in
docs/lists/protections-tried.csv.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from pathlib import Path

import click

from scripts.fault_results import ROOT, digest_of, merge, read_list, write_list

PROTECTIONS, TRIED = "protections.csv", "protections-tried.csv"
RED = "red"
_SECONDS = 240  # a test that never ends without its protection counts as red, too
_MOST_CHARACTERS = 160
_FAILURE = re.compile(r"^E +(\S.*)$", re.MULTILINE)
_PATH = re.compile(rf"{re.escape(tempfile.gettempdir())}/\S*/")  # a temporary path, which differs in each run
_FAILED = 1  # pytest's exit code for failed tests


@dataclass(frozen=True, slots=True, kw_only=True)
class Protection:
    """Hold one row: what keeps a fault from doing harm, and its test."""

    id: str
    test: str
    file: str
    protection: str
    without: str

    @property
    def of(self) -> str:
        text = "\0".join([self.file, self.protection, self.without, digest_of(self.test)])
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    def is_there(self) -> bool:
        return (ROOT / self.file).read_text(encoding="utf-8").count(self.protection) == 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """Hold how a test ended without its protection."""

    id: str
    of: str
    outcome: str  # RED, or why the test did not fail as expected
    says: str
    on: str


def protections() -> list[Protection]:
    return [Protection(**row) for row in read_list(PROTECTIONS)]


def seen_red() -> dict[str, Protection]:
    """Return the protections whose test failed without them, if neither has changed since."""
    tried = {row["id"]: row for row in read_list(TRIED)}
    return {
        one.id: one
        for one in protections()
        if one.id in tried and tried[one.id]["outcome"] == RED and tried[one.id]["of"] == one.of
        if one.is_there()
    }


def attempt(one: Protection, folder: Path) -> Tried:
    """Run the test with its protection, then without."""
    outcome, says = "no such protection", ""
    if one.is_there():
        results = folder / f"{one.id}.xml"
        ran = _run(one, f"--junitxml={results}")
        outcome, says = "fails with its protection", _last_words(ran)
        if ran is not None and ran.returncode == 0:
            merge([results])
            with _changed(one):
                ran = _run(one)
            outcome, says = _judged(ran), _last_words(ran)
    return Tried(id=one.id, of=one.of, outcome=outcome, says=says, on=datetime.now(UTC).date().isoformat())


@contextmanager
def _changed(one: Protection) -> Iterator[None]:
    """Remove the protection from its file inside the context."""
    file = ROOT / one.file
    text = file.read_text("utf-8")
    try:
        file.write_text(text.replace(one.protection, one.without), encoding="utf-8")
        yield
    finally:
        file.write_text(text, encoding="utf-8")


def _judged(ran: subprocess.CompletedProcess[str] | None) -> str:
    if ran is None or ran.returncode == _FAILED:
        return RED
    return "green" if ran.returncode == 0 else f"pytest ends with {ran.returncode}"


def _run(one: Protection, *options: str) -> subprocess.CompletedProcess[str] | None:
    """Run the test; return None if it did not end in time."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *options, one.test]
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        [*command, f"--timeout={_SECONDS}"],
        cwd=ROOT,
        env=environment,
        text=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        said, _ = process.communicate(timeout=_SECONDS + 30)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)
        process.communicate()
        return None
    return subprocess.CompletedProcess(command, process.returncode, said)


def _last_words(ran: subprocess.CompletedProcess[str] | None) -> str:
    if ran is None:
        return f"it does not end in {_SECONDS} s"
    found = _FAILURE.search(ran.stdout)
    return _PATH.sub("", " ".join(found[1].split()))[:_MOST_CHARACTERS] if found else ""


def _keep(fresh: Tried) -> None:
    known = {row["id"]: row for row in read_list(TRIED)}
    known[fresh.id] = asdict(fresh)
    write_list(
        TRIED,
        [field.name for field in fields(Tried)],
        [known[one.id] for one in protections() if one.id in known],
    )


@click.command()
@click.argument("numbers", nargs=-1)
@click.option("--again", is_flag=True, help="Try also those that were seen red.")
def command(numbers: tuple[str, ...], again: bool) -> None:
    """Remove the protections of these faults, or of all that were not seen red, one at a time."""
    ends_well, done = True, {} if again else seen_red()
    chosen = [one for one in protections() if (one.id in numbers if numbers else one.id not in done)]
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        for one in chosen:
            tried = attempt(one, Path(folder))
            _keep(tried)
            ends_well = ends_well and tried.outcome == RED
            click.echo(f"{tried.id} {tried.outcome}: {tried.says}")
    sys.exit(0 if ends_well else 1)


if __name__ == "__main__":
    command()
