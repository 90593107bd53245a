"""The core is compiled once and safely if there is a compiler; otherwise one line says what to install."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from slipway.containers.data.tokens import compiled
from tests.containers.data.rows.test_prepare import ROOT, command

SANITIZERS = "-fsanitize=address,undefined -fno-sanitize-recover=all -g -O1"


def test_without_a_compiler_a_preparation_ends_in_one_line_that_says_what_to_install(
    corpus: Path, vocabulary_file: Path, tmp_path: Path
) -> None:
    environment = {**os.environ, "CC": "no-such-compiler", "XDG_CACHE_HOME": str(tmp_path / "empty")}
    arguments = command(corpus, vocabulary_file, tmp_path / "out", "--shards", "3")
    done = subprocess.run(arguments, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    told = [line for line in done.stderr.splitlines() if "compiler" in line]
    assert done.returncode == 1
    why = "error: no C compiler (no-such-compiler) is on PATH, and preparing text needs one"
    hint = "install a compiler with its headers, such as Debian's gcc and libc6-dev; images hold the library"
    assert told == [f"{why}; {hint}"]
    assert "Traceback" not in done.stderr


def test_a_source_that_does_not_compile_is_told_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(compiled.CannotCompile, match="cannot compile") as caught:
        compiled.library(("-fno-such-flag",))
    assert "\n" not in str(caught.value)
    assert not list(tmp_path.rglob("*.so"))


def test_a_damaged_library_is_compiled_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    kept = compiled.cache_folder() / f"core-{compiled.source_digest(compiled.FLAGS)}.so"
    kept.parent.mkdir(parents=True)
    kept.write_bytes(b"cut short")
    assert compiled.library().core_open is not None
    assert kept.stat().st_size > 1000


def test_what_a_killed_build_left_disturbs_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    compiled.cache_folder().mkdir(parents=True)
    (compiled.cache_folder() / ".core-left").write_bytes(b"half")
    assert compiled.library().core_open is not None


def test_a_home_that_cannot_be_written_to_is_no_obstacle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert compiled.library().core_open is not None


def test_many_processes_may_compile_at_once(tmp_path: Path) -> None:
    script = "from slipway.containers.data.tokens.compiled import library; library().core_open"
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    started = [subprocess.Popen([sys.executable, "-c", script], cwd=ROOT, env=environment) for _ in range(4)]
    assert [process.wait() for process in started] == [0] * 4
    assert [path.suffix for path in (tmp_path / "slipway" / "data").iterdir()] == [".so"]


def test_random_bytes_lead_the_core_nowhere_it_may_not_go(tmp_path: Path, vocabulary_file: Path) -> None:
    """In a process of its own, under the address and undefined-behaviour sanitizers."""
    compiler = shutil.which(os.environ.get("CC", "gcc"))
    if not compiler:
        pytest.skip("no gcc here")
    preload = [
        subprocess.run(
            [compiler, f"-print-file-name={name}"], capture_output=True, text=True, check=True
        ).stdout.strip()
        for name in ("libasan.so", "libubsan.so")
    ]
    if not all(Path(path).is_absolute() for path in preload):
        pytest.skip("gcc has no sanitizer libraries here")
    environment = {
        **os.environ,
        "LD_PRELOAD": " ".join(preload),
        "ASAN_OPTIONS": "detect_leaks=0",  # Python's own
        "SLIPWAY_DATA_FLAGS": SANITIZERS,
        "XDG_CACHE_HOME": str(tmp_path),
    }
    fuzz = [sys.executable, "-m", "tests.containers.data.fuzz_core", str(vocabulary_file)]
    done = subprocess.run(fuzz, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "rows" in done.stdout


def test_an_image_compiles_it_with_python_alone_and_what_it_has_copied() -> None:
    script = (
        "import sys; from slipway.containers.data.tokens.compiled import library; library();"
        " print([name for name in sys.modules if name.startswith(('numpy', 'torch', 'slipway.containers.'))])"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    loaded = ast.literal_eval(ran.stdout)
    copied = ("slipway.containers.data", "slipway.containers.runtime.errors")
    others = [name for name in loaded if not name.startswith(copied)]
    assert others == ["slipway.containers.runtime"]
