"""Print the test files of a room: those of its folder, and those that import it, directly or not.

`python -m scripts.room_tests jobs/plan/search`. It cannot find tests that reach a room without an import,
such as by a command line in another process: a change must pass scripts/test without arguments.
"""

from __future__ import annotations

import sys
from pathlib import Path

import grimp

ROOT = Path(__file__).resolve().parent.parent
STOREYS = ("infra", "jobs", "yard", "containers", "slipway", "scripts")


def main(arguments: list[str]) -> int:
    (name,) = arguments
    files = files_of(name)
    if not files:
        print(
            f"error: no test is of '{name}'; a room is a folder or module of {', '.join(STOREYS)}, "
            "such as jobs/plan/search",
            file=sys.stderr,
        )
        return 2
    print(*files, sep="\n")
    return 0


def files_of(name: str) -> list[str]:
    """Return the test files of a room, sorted; none if there is no such room."""
    room = Path(name.rstrip("/"))
    if not name.startswith(STOREYS) or not (ROOT / room).exists():
        return []
    found = {str(path.relative_to(ROOT)) for path in (ROOT / "tests" / room).rglob("test_*.py")}
    graph = grimp.build_graph("slipway", "scripts", "tests", cache_dir=str(ROOT / ".import_linter_cache"))
    module = ".".join(room.with_suffix("").parts)
    if room.parts[0] not in ("slipway", "scripts"):
        module = f"slipway.{module}"
    if module in graph.modules:  # or it is a folder of shell scripts or data
        importers = graph.find_downstream_modules(module, as_package=True)
        paths = (Path(*importer.split(".")).with_suffix(".py") for importer in importers)
        found |= {str(path) for path in paths if path.parts[0] == "tests" and path.name.startswith("test_")}
    return sorted(found)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
