"""scripts/audit tells what databases know about the locks, and never takes no answer for a clean one.

pip-audit and npm ask a database of this test; nobody has tried the public ones here.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts import auditing
from tests.installed import ROOT
from tests.local_server import QuietHandler, serving

LOCK = "scripts/locks/submit.txt"
KNOWN = {
    "id": "GHSA-1111",
    "summary": "It does what it should not.",
    "affected": [
        {
            "package": {"name": "second", "ecosystem": "PyPI"},
            "ranges": [{"type": "ECOSYSTEM", "events": [{"introduced": "0"}, {"fixed": "2.0.1"}]}],
        }
    ],
}
OF_NPM = {
    "id": 7,
    "url": "https://example.org/GHSA-2222",
    "title": "It, too.",
    "severity": "high",
    "vulnerable_versions": "<=999999.0.0",
    "cwe": [],
    "cvss": {"score": 0, "vectorString": None},
}


class Database(QuietHandler):
    """Answers as OSV and npm's registry do; it has an advisory on `second`, and on aws-cdk if told to."""

    knows_npm = False

    def do_POST(self) -> None:
        asked = self.rfile.read(int(self.headers["Content-Length"]))
        if self.path == "/nowhere-to-post":
            self.send_error(503)
            return
        if self.path == "/osv":
            told: dict[str, object] = (
                {"vulns": [KNOWN]} if json.loads(asked)["package"]["name"] == "second" else {}
            )
        else:
            told = {"aws-cdk": [OF_NPM]} if self.knows_npm else {}
        self.answer(200, json.dumps(told).encode())

    def do_GET(self) -> None:
        self.send_error(404)  # npm asks for this, too


@pytest.fixture
def database() -> Iterator[str]:
    with serving(Database) as address:
        yield address


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / LOCK).parent.mkdir(parents=True)
    for name in ("package.json", "package-lock.json"):
        shutil.copy(ROOT / name, tmp_path / name)
    _lock(tmp_path, "first==1.0")
    (tmp_path / "notes.txt").write_text("no lock\n", encoding="utf-8")
    subprocess.run(["git", "init", "--quiet"], cwd=tmp_path, check=True)
    subprocess.run(["git", "add", "--all"], cwd=tmp_path, check=True)
    monkeypatch.setattr(auditing, "ROOT", tmp_path)
    monkeypatch.setenv("npm_config_cache", str(tmp_path / "npm"))
    monkeypatch.setenv("npm_config_fetch_retries", "0")
    return tmp_path


def test_what_is_known_is_named_with_its_lock_and_ends_with_1(
    checkout: Path, database: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _lock(checkout, "first==1.0", "second==2.0")
    monkeypatch.setattr(Database, "knows_npm", True)
    assert _audit(database) == 1
    told = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [LOCK, "second", "2.0", "GHSA-1111", "2.0.1"] in told
    assert [row for row in told if row[:2] == ["package-lock.json", "aws-cdk"]]
    assert json.loads((checkout / auditing.RECORD).read_text(encoding="utf-8"))["advisories"] == 2


def test_where_nothing_is_known_the_day_is_kept(
    checkout: Path, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(auditing, "of_npm", lambda _registry: [])
    assert auditing.last_audit().startswith("It was not run to its end yet")
    assert _audit(database) == 0
    kept = json.loads((checkout / auditing.RECORD).read_text(encoding="utf-8"))
    assert (kept["locks"], kept["advisories"]) == (2, 0)
    assert auditing.last_audit() == f"Last on {kept['day']}: 0 advisories about 2 locks."


def test_no_answer_is_not_a_clean_one(
    checkout: Path, database: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(auditing, "of_npm", lambda _registry: [])
    assert _audit(database, osv="/nowhere-to-post") == auditing.NOT_POSSIBLE
    told = capsys.readouterr()
    assert f"audit: {LOCK}: NOT ASKED: pip-audit" in told.err
    assert "1 of 2 locks got no answer" in told.err
    assert "none" not in told.out + told.err
    assert not (checkout / auditing.RECORD).exists()


def _audit(database: str, osv: str = "/osv") -> int:
    with pytest.raises(SystemExit) as ended:
        auditing.audit.main(["--osv-url", database + osv, "--registry", database], standalone_mode=False)
    assert isinstance(ended.value.code, int)
    return ended.value.code


def _lock(folder: Path, *pins: str) -> None:
    lines = (f"{pin} \\\n    --hash=sha256:{'a' * 64}\n" for pin in pins)
    (folder / LOCK).write_text("".join(lines), encoding="utf-8")
