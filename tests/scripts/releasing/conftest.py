"""Fixtures: a small project in its own repository, which scripts/releasing takes for the checkout."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from scripts.releasing import __main__ as releasing
from scripts.releasing.artifacts import Source
from slipway._version import VERSION
from tests.installed import ROOT, git

PYPROJECT = """[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"
[project]
name = "slipway"
dynamic = ["version"]
description = "A small one."
license = "Apache-2.0"
dependencies = ["first-thing>=1"]
[project.optional-dependencies]
training = ["torch==2.13.0", "second"]
dev = ["tool"]
[tool.setuptools.packages.find]
include = ["slipway*"]
"""
LOCKS = {
    "submit": f"First_Thing==1.2 \\\n    --hash=sha256:{'a' * 64} \\\n    --hash=sha256:{'b' * 64}\n",
    "training": f"first-thing==1.2 \\\n    --hash=sha256:{'a' * 64}\n"
    f"second==2.0 ; x == 'y' \\\n    --hash=sha256:{'c' * 64}\n",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """Hold the repository; everything in it is committed."""

    folder: Path

    def git(self, *arguments: str) -> str:
        return git(self.folder, *arguments)

    def write(self, name: str, text: str) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def read(self, name: str) -> str:
        return (self.folder / name).read_text(encoding="utf-8")


def _write_nothing(source: Source, work: Path, archive: Path) -> Path:
    """Stand in for Sphinx, which takes longer than all else; test_real_release.py builds the site."""
    archive.write_bytes(b"")
    return archive


Release = Callable[[Sequence[str]], None]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    made = Project(folder=tmp_path / "project")
    made.write("pyproject.toml", PYPROJECT)
    made.write("README.md", f"$ slipway --version\nslipway {VERSION} (extras: none)\n")
    made.write(
        "docs/page.md", f"pip install slipway-{VERSION}-py3-none-any.whl\nslipway-{VERSION}.cdx.json\n"
    )
    made.write(
        "CHANGELOG.md",
        f"# Changelog\n\n## Unreleased\n\n## {VERSION} – 2026-11-26\n\n### Added\n\n- All.\n",
    )
    for lock in ("deepspeed", "develop", "sagemaker", "sft", "toolkit", *LOCKS):
        made.write(f"scripts/locks/{lock}.txt", LOCKS.get(lock, ""))
    made.write("slipway/__init__.py", "")
    for name in ("slipway/_version.py", "setup.py", "MANIFEST.in"):
        shutil.copy(ROOT / name, made.folder / name)
    made.git("init", "--quiet")
    made.git("add", "--all")
    made.git("commit", "--quiet", "--message=one")
    monkeypatch.setattr(releasing, "ROOT", made.folder)
    monkeypatch.setattr(releasing, "build_site", _write_nothing)
    for name, value in {"NAME": "a", "EMAIL": "a@example.org"}.items():
        monkeypatch.setenv(f"GIT_COMMITTER_{name}", value)
    return made


@pytest.fixture
def release(project: Project, tmp_path: Path) -> Release:
    """Run the project's scripts/release; its files appear in `out`."""

    def run(arguments: Sequence[str]) -> None:
        releasing.release.main(["--out", str(tmp_path / "out"), *arguments], standalone_mode=False)

    return run
