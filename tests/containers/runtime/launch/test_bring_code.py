"""A container of AWS's own gets the code of its job, or says why not, before anything runs."""

from __future__ import annotations

import gzip
import io
import subprocess
import sys
import tarfile
from hashlib import sha256
from pathlib import Path

import slipway.containers.runtime.launch as launch

PROGRAM = (Path(launch.__file__).parent / "bring_code.py").read_text(encoding="utf-8")
# The container has no part of this environment, in which Slipway is installed.
PYTHON = Path(sys.base_prefix) / "bin" / f"python3.{sys.version_info.minor}"
# A folder stands in for boto3 and S3, and tarfile is as in Debian 12's Python 3.11.2, without filters.
CLIENT = """
import io, pathlib, tarfile
whole = tarfile.TarFile.extractall
tarfile.TarFile.extractall = lambda self, path=".", members=None: whole(self, path, members)
class client:
    def __init__(self, service): assert service == "s3"
    def get_object(self, Bucket, Key):
        return {"Body": io.BytesIO((pathlib.Path(__file__).parent / Bucket / Key).read_bytes())}
"""
LAUNCHER = "import sys\nprint('launched with', *sys.argv[1:])\n"


def archive() -> bytes:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w") as tar:
        for folder in ("slipway", "slipway/containers", "slipway/containers/runtime"):
            tar.addfile(tarfile.TarInfo(f"{folder}/__init__.py"))
        entry = tarfile.TarInfo("slipway/containers/runtime/launch.py")
        entry.size = len(LAUNCHER)
        tar.addfile(entry, io.BytesIO(LAUNCHER.encode()))
    return target.getvalue()


def bring(folder: Path, plain: bytes, digest: str) -> subprocess.CompletedProcess[str]:
    (folder / "boto3.py").write_text(CLIENT)
    key = folder / "data" / "code" / f"{digest}.tar.gz"
    key.parent.mkdir(parents=True)
    key.write_bytes(gzip.compress(plain))
    words = [f"s3://data/code/{digest}.tar.gz", "--module", "m"]
    return subprocess.run(
        [PYTHON, "-P", "-c", PROGRAM, *words],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env={"PYTHONPATH": str(folder), "PATH": "/usr/bin:/bin"},
    )


def test_the_code_is_unpacked_and_the_launcher_runs_in_place_of_this_program(tmp_path: Path) -> None:
    plain = archive()
    ran = bring(tmp_path, plain, sha256(plain).hexdigest())
    assert (ran.returncode, ran.stdout) == (0, "launched with --module m\n"), ran.stderr


def test_code_that_is_not_what_was_submitted_is_never_run(tmp_path: Path) -> None:
    ran = bring(tmp_path, archive(), "0" * 64)
    assert ran.returncode == 1
    assert "is not the code that was submitted; submit the job again" in ran.stderr
    assert "launched" not in ran.stdout


def test_an_archive_that_leads_out_of_its_folder_is_refused(tmp_path: Path) -> None:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w") as tar:
        tar.addfile(tarfile.TarInfo("../outside.py"))
    ran = bring(tmp_path, target.getvalue(), sha256(target.getvalue()).hexdigest())
    assert ran.returncode == 1
    assert "holds '../outside.py', which is no file below its folder" in ran.stderr


def test_code_that_cannot_be_fetched_ends_the_attempt_and_not_the_job(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-P", "-c", PROGRAM, "s3://data/code/x.tar.gz"],
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": str(tmp_path), "AWS_ENDPOINT_URL": "http://127.0.0.1:1", "AWS_MAX_ATTEMPTS": "1"},
    )
    assert ran.returncode == 85
    assert "error: the code at s3://data/code/x.tar.gz cannot be fetched" in ran.stderr
