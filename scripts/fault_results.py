"""Read what the tests of faults measured from pytest's JUnit files, for docs/lists/faults-measured.csv.

A test reports with the fixture `fault` (tests/conftest.py) when its fault strikes, is seen and is over. To
add a column, add a field to Measured. Only tests that docs/lists/faults.csv names are kept.
`python -m scripts.fault_results FILE.xml…` merges; scripts/test --all calls it at its end.
"""

from __future__ import annotations

import ast
import csv
import hashlib
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parent.parent
LISTS = ROOT / "docs" / "lists"
MEASURED = LISTS / "faults-measured.csv"
PASSED = "passed"
# The platform that a test's yard imitates; a test that runs on several names them itself.
_PLATFORMS: Mapping[str, str] = {
    "tests/yard/services/batch/": "AWS Batch",
    "tests/jobs/platforms/batch/": "AWS Batch",
    "tests/jobs/submit/": "AWS Batch",
    "tests/end_to_end/test_training.py": "AWS Batch",
    "tests/yard/services/pcs/": "Slurm",
    "tests/jobs/platforms/slurm/": "Slurm",
    "tests/end_to_end/test_trn1_road.py": "Slurm",
    "tests/jobs/platforms/mpi/": "MPI",
    "tests/yard/machines/hosts/": "MPI",
    "tests/end_to_end/test_mpi_jobs.py": "MPI",
    "tests/yard/services/sagemaker/": "SageMaker",
}
_ANY = "any"  # the container's work, which is the same on all platforms


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Hold what one test of a fault showed when it last ran."""

    test: str
    of: str  # digest of the test that ran: a result is shown only while the test reads the same
    outcome: str
    platform: str
    seconds: str  # of the whole test
    detected: str  # seconds from the fault to its detection; "" if the test does not report it
    recovered: str
    on: str
    note: str = ""  # what the test reports besides


def read_list(name: str) -> list[dict[str, str]]:
    """Return the rows of a list of docs/lists; none if it does not exist yet."""
    path = LISTS / name
    if not path.is_file():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def holders(row: Mapping[str, str]) -> list[str]:
    """Return the tests that hold a row; none if it says that nothing does."""
    return [] if row["held_by"].startswith("nothing: ") else row["held_by"].split("; ")


def fresh() -> dict[str, Measured]:
    """Return the results of tests that have not changed since they were measured."""
    found = [Measured(**row) for row in read_list(MEASURED.name)]
    return {one.test: one for one in found if one.of == digest_of(one.test)}


def digest_of(test: str) -> str:
    """Return a short digest of a test's text; "" if there is no such test."""
    path, _, name = test.partition("::")
    source, functions = _functions(path)
    node = functions.get(name.partition("[")[0])
    text = ast.get_source_segment(source, node) if node else None
    return hashlib.sha256(text.encode()).hexdigest()[:12] if text else ""


@cache
def _functions(path: str) -> tuple[str, Mapping[str, ast.FunctionDef]]:
    if not (ROOT / path).is_file():
        return "", {}
    source = (ROOT / path).read_text(encoding="utf-8")
    return source, {node.name: node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)}


def read_results(paths: Iterable[Path], tests: set[str], on: str) -> Iterator[Measured]:
    """Yield the results of these tests; of a test with parameters, its worst and slowest."""
    cases: dict[str, dict[str, ElementTree.Element]] = {}
    for path in paths:
        for case in ElementTree.parse(path).iter("testcase"):  # noqa: S314  # pytest wrote it a moment ago
            name = case.get("name", "")
            test = f"{case.get('classname', '').replace('.', '/')}.py::{name.partition('[')[0]}"
            if test in tests and case.find("skipped") is None:
                cases.setdefault(test, {})[name] = case  # of a test that ran again, the last run counts
    for test, named in cases.items():
        found = list(named.values())
        is_bad = any(case.find(word) is not None for case in found for word in ("failure", "error"))
        told = [
            {each.get("name", ""): each.get("value", "") for each in case.iter("property")} for case in found
        ]
        imitated = next((name for begin, name in _PLATFORMS.items() if test.startswith(begin)), _ANY)
        yield Measured(
            test=test,
            of=digest_of(test),
            outcome="failed" if is_bad else PASSED,
            platform=_joined(told, "platform") or imitated,
            seconds=_longest(case.get("time", "") for case in found),
            detected=_longest(each.get("detected", "") for each in told),
            recovered=_longest(each.get("recovered", "") for each in told),
            on=on,
            note=_joined(told, "note"),
        )


def _joined(told: Iterable[Mapping[str, str]], name: str) -> str:
    return ", ".join(sorted({each[name] for each in told if name in each}))


def _longest(told: Iterable[str]) -> str:
    known = [float(each) for each in told if each]
    return f"{max(known):.1f}" if known else ""


def merge(paths: Iterable[Path]) -> int:
    """Replace the kept results of the tests in pytest's files; return the number of these tests."""
    tests = {test for row in read_list("faults.csv") for test in holders(row)}
    known = {row["test"]: Measured(**row) for row in read_list(MEASURED.name) if row["test"] in tests}
    told = {one.test: one for one in read_results(paths, tests, datetime.now(UTC).date().isoformat())}
    rows = [asdict(one) for _, one in sorted({**known, **told}.items())]
    write_list(MEASURED.name, [field.name for field in fields(Measured)], rows)
    return len(told)


def write_list(name: str, columns: list[str], rows: Iterable[Mapping[str, object]]) -> None:
    with (LISTS / name).open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    count = merge(map(Path, sys.argv[1:]))
    print(f"faults: {count} tests measured; run scripts/write_docs", file=sys.stderr)
