"""Write the page of faults: what each row's tests measured, and the protection without which they fail."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from scripts.fault_results import PASSED, Measured, fresh, holders, read_list
from scripts.mutants import Protection, seen_red
from scripts.page_templates import escaped, filled

_UNKNOWN = "not measured"
_COLUMNS = ("id", "fault", "expected", "held_by")


def faults_page() -> str:
    rows, found, red = read_list("faults.csv"), fresh(), seen_red()
    return filled(
        "faults",
        rows="".join(_row(row[column] for column in _COLUMNS) for row in rows),
        measured="".join(_row(_measured(row, found, red.get(row["id"]))) for row in rows),
        counts=f"{sum(row['id'] in red for row in rows)} of {len(rows)}",
    )


def _row(cells: Iterator[str]) -> str:
    return f"| {' | '.join(escaped(cell) for cell in cells)} |\n"


def _measured(row: Mapping[str, str], found: Mapping[str, Measured], red: Protection | None) -> Iterator[str]:
    tests = holders(row)
    known = [found[test] for test in tests if test in found]
    yield row["id"]
    yield row["injected"]
    yield ", ".join(sorted({one.platform for one in known})) or _UNKNOWN
    yield _outcome(known, len(tests))
    yield _seconds([one.detected for one in known if one.detected])
    yield _seconds([one.recovered for one in known if one.recovered])
    yield _seconds([one.seconds for one in known])
    yield f"{red.file}: {' '.join(red.protection.split())}" if red else "not tried"
    yield max((one.on for one in known), default="")


def _outcome(known: list[Measured], tests: int) -> str:
    if not known:
        return _UNKNOWN
    passed = sum(one.outcome == PASSED for one in known)
    missing = [f"{tests - len(known)} {_UNKNOWN}"] if len(known) < tests else []
    notes = [one.note for one in known if one.note]
    return "; ".join([", ".join([f"{passed} of {tests} passed", *missing]), *notes])


def _seconds(told: list[str]) -> str:
    known = sorted(map(float, told))
    if not known:
        return ""
    least, most = f"{known[0]:g}", f"{known[-1]:g}"
    return f"{least} s" if least == most else f"{least} to {most} s"
