"""Run `scripts/audit`: look up every locked package of PyPI and npm in the public advisories.

A lock without an answer counts as not asked: a machine that reaches no database must not look clean.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from pathlib import Path

import click

from slipway.jobs.output import Column, complain, print_table, say

ROOT = Path(__file__).resolve().parent.parent
RECORD = Path("scripts", "locks", "audited.json")
NOT_POSSIBLE = 77
_PIP_AUDIT = (
    *("pip-audit", "--vulnerability-service", "osv", "--disable-pip", "--no-deps", "--require-hashes"),
    *("--format", "json", "--desc", "off", "--aliases", "off", "--progress-spinner", "off"),
)
_NPM_AUDIT = ["npm", "audit", "--package-lock-only", "--json"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Advisory:
    """Names one advisory against a version of a package in one lock."""

    lock: str
    package: str
    version: str
    number: str
    mended_in: str


class NoAdvice(Exception):
    """Reports that a lock got no answer, or not for all of its packages."""


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--osv-url", default="", help="Another OSV database for PyPI's packages, such as a mirror.")
@click.option("--registry", default="", help="Another registry for npm's advisories.")
def audit(*, osv_url: str, registry: str) -> None:
    """Ask OSV and npm for advisories about the packages of every lock."""
    found: list[Advisory] = []
    silent = 0
    asked = hashed_locks()
    for lock in (*asked, "package-lock.json"):
        try:
            found += of_npm(registry) if lock == "package-lock.json" else of_pypi(lock, osv_url)
            say(f"audit: {lock}")
        except NoAdvice as reason:
            silent += 1
            say(f"audit: {lock}: NOT ASKED: {reason}")
    columns = [Column(name=each.name) for each in fields(Advisory)]
    if found or not silent:
        print_table("advisories", columns, [asdict(each) for each in found], as_json=False)
    if silent:
        complain(f"{silent} of {len(asked) + 1} locks got no answer", "run it where OSV and npm answer")
        sys.exit(NOT_POSSIBLE)
    told = {"day": datetime.now(tz=UTC).date().isoformat(), "locks": len(asked) + 1, "advisories": len(found)}
    (ROOT / RECORD).write_text(json.dumps(told) + "\n", encoding="utf-8")
    say(f"audit: {len(found)} advisories; {RECORD} says the day, and scripts/write_docs shows it")
    sys.exit(1 if found else 0)


def last_audit() -> str:
    """Return when every lock was last audited."""
    if not (ROOT / RECORD).is_file():
        return "It was not run to its end yet: where this was written, neither database was reached."
    kept = json.loads((ROOT / RECORD).read_text(encoding="utf-8"))
    return f"Last on {kept['day']}: {kept['advisories']} advisories about {kept['locks']} locks."


def hashed_locks() -> tuple[str, ...]:
    names = _run("git", "ls-files", "*.txt").stdout.split()
    return tuple(name for name in names if "--hash=sha256:" in (ROOT / name).read_text(encoding="utf-8"))


def of_pypi(lock: str, url: str = "") -> list[Advisory]:
    told = _answer(*_PIP_AUDIT, *(("--osv-url", url) if url else ()), "--requirement", lock)
    packages = told.get("dependencies")
    if not isinstance(packages, list):
        raise NoAdvice("pip-audit named no package")
    if left_out := [f"{each['name']}: {each['skip_reason']}" for each in packages if "skip_reason" in each]:
        raise NoAdvice("; ".join(left_out))
    return [
        Advisory(
            lock=lock,
            package=each["name"],
            version=each["version"],
            number=known["id"],
            mended_in=", ".join(known["fix_versions"]) or "none",
        )
        for each in packages
        for known in each["vulns"]
    ]


def of_npm(registry: str = "") -> list[Advisory]:
    told = _answer(*_NPM_AUDIT, *(("--registry", registry) if registry else ()))
    packages = told.get("vulnerabilities")
    if not isinstance(packages, dict):
        raise NoAdvice(str(told.get("message", "npm named no package")).replace("\n", " "))
    return [
        Advisory(
            lock="package-lock.json",
            package=name,
            version=str(about["range"]),
            number=str(known["url"]),
            mended_in="npm audit fix" if about["fixAvailable"] else "none",
        )
        for name, about in packages.items()
        for known in about["via"]
        if isinstance(known, dict)  # a bare name refers to another row
    ]


def _answer(*command: str) -> Mapping[str, object]:
    """Return what a program prints as JSON; its exit code is 1 both for advisories and for errors."""
    done = _run(*command)
    try:
        told = json.loads(done.stdout)
    except ValueError:
        words = done.stderr.strip().splitlines() or ["it printed nothing"]
        raise NoAdvice(f"{command[0]} ended with {done.returncode}: {words[-1]}") from None
    if not isinstance(told, dict):
        raise NoAdvice(f"{command[0]} printed something else than an object")
    return told


def _run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


if __name__ == "__main__":
    audit()
