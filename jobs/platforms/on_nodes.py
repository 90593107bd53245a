"""Unpacks the archive of a job's code on a node, once, after checking its digest.

Also has what the programs of MPI and Slurm nodes share: words, the ranks' Python, atomic writes.
"""

from __future__ import annotations

import argparse
import io
import os
import shutil
import sys
import tarfile
import tempfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from slipway.jobs.words.errors import SlipwayError, in_lines
from slipway.jobs.words.job import code_key

MOST_BYTES = 256 << 20  # unpacked; containers/ has a few MB
_AGAIN = "submit the job again with this Slipway"
_GZIP = 16 + zlib.MAX_WBITS


class DamagedCode(SlipwayError):
    """The code is damaged, so none of it is run."""


def ensure_unpacked(folder: Path, digest: str, bucket: str, s3: Any) -> Path:
    """Fetch the code of this digest unless the folder is there; return the folder."""
    if not folder.exists():
        answer = s3.get_object(Bucket=bucket, Key=code_key(digest))
        # Decompress and check the digest, which is that of the archive: compression differs by machine.
        packed = answer["Body"].read()
        reader = zlib.decompressobj(_GZIP)
        try:
            archive = reader.decompress(packed, MOST_BYTES)
        except zlib.error as error:
            raise _damaged(digest, f"is not gzip ({error})") from None
        if reader.unconsumed_tail:
            raise _damaged(digest, f"unpacks to more than {MOST_BYTES} bytes")
        found = sha256(archive).hexdigest()
        if found != digest:
            raise _damaged(digest, f"has the digest {found}")
        unpack(archive, folder)
    return folder


def unpack(archive: bytes, folder: Path) -> None:
    """Unpack atomically; a second caller finds the folder there."""
    folder.parent.mkdir(parents=True, exist_ok=True, mode=0o755)
    new = Path(tempfile.mkdtemp(prefix=".new-", dir=folder.parent))
    try:
        with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
            for member in tar:
                _extract(tar, member, new)
        new.chmod(0o755)
        new.rename(folder)
    except OSError:
        if not folder.is_dir():
            raise
    finally:
        shutil.rmtree(new, ignore_errors=True)


def _extract(tar: tarfile.TarFile, member: tarfile.TarInfo, folder: Path) -> None:
    """Write one plain file below the folder, without extractall(): Debian 12's Python lacks its filters."""
    target = folder / member.name
    source = tar.extractfile(member) if member.isfile() else None
    if source is None or ".." in target.parts or not target.is_relative_to(folder):
        raise DamagedCode(f"the code holds {member.name!r}, which is no file below its folder", hint=_AGAIN)
    target.parent.mkdir(parents=True, exist_ok=True)
    with source, target.open("xb") as copy:
        shutil.copyfileobj(source, copy)
    target.chmod(member.mode & 0o755)


def _damaged(digest: str, what: str) -> DamagedCode:
    key = code_key(digest)
    return DamagedCode(f"{key} {what}", hint=f"delete the object {key} and submit the job again")


# Runs a word of a node's program; an error becomes one line and an exit code.
Words = Mapping[str, Callable[[argparse.Namespace], int]]

_FAILED = 1
# By default botocore asks for the node's role once and waits one second; a job would fail if metadata came
# late.
_PATIENCE = {"AWS_METADATA_SERVICE_TIMEOUT": "5", "AWS_METADATA_SERVICE_NUM_ATTEMPTS": "5"}


def run_word(words: Words, parsed: argparse.Namespace) -> int:
    """Run the parsed word; return the program's exit code."""
    os.environ.update({name: os.environ.get(name, value) for name, value in _PATIENCE.items()})
    try:
        return words[parsed.word](parsed)
    except SlipwayError as error:
        print(in_lines(error), file=sys.stderr)
        return error.exit_code
    except Exception as error:  # botocore's errors have no common base that is known without it
        if type(error).__module__.startswith("botocore"):
            print(f"error: {parsed.word}: AWS gave no answer: {error}", file=sys.stderr)
            return _FAILED
        if not isinstance(error, OSError) or error.errno is None:
            raise
        print(f"error: {parsed.word}: {error.filename or 'a file'}: {error.strerror}", file=sys.stderr)
        return _FAILED


# The Python that a job's ranks run in: the node's own, or one from the machine image. A vendor of
# accelerators builds its PyTorch for one version of Python, which need not be ours. An image for such
# machines has a folder with an environment for it (bin/python), the variables of the vendor's libraries
# (`variables`, with NAME=VALUE in each line), and its contents (`version`), which must be equal on all nodes
# of a job.
FOLDER = "opt/slipway/training"
_OWN = "the node's own"


@dataclass(frozen=True, slots=True, kw_only=True)
class RankPython:
    program: str
    version: str
    variables: Mapping[str, str]


def rank_python(root: Path) -> RankPython:
    folder = root / FOLDER
    program = folder / "bin" / "python"
    if not program.exists():
        return RankPython(program=sys.executable, version=_OWN, variables={})
    lines = (folder / "variables").read_text(encoding="utf-8").splitlines()
    return RankPython(
        program=str(program),
        version=(folder / "version").read_text(encoding="utf-8").strip(),
        variables=dict(line.split("=", 1) for line in lines if "=" in line),
    )


# Files that others read while we write: written atomically, and only if something changed.
READABLE, PROGRAM, SECRET = 0o644, 0o755, 0o600


def write_whole(path: Path, text: str, mode: int = READABLE) -> bool:
    """Write atomically; return True if the content changed."""
    if path.exists() and path.read_text(encoding="utf-8") == text:
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f".{path.name}.{os.getpid()}")
    new.unlink(missing_ok=True)
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    new.replace(path)
    return True


@contextmanager
def scratch(prefix: str, beside: Path | None = None) -> Iterator[Path]:
    """Yield a folder of this process that is deleted after it: in `beside`, or among temporary files."""
    with tempfile.TemporaryDirectory(prefix=prefix, dir=beside, ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def read_exit_code(path: Path) -> int | None:
    """Return the code that the main node's launcher wrote; its starter's code may come from another node."""
    with suppress(OSError, ValueError):
        return int(path.read_text(encoding="ascii"))
    return None


def write_through(path: Path, text: str) -> bool:
    """Write into the existing file (/etc/hosts may be a mount of its own); return True if it changed."""
    if path.exists() and path.read_text(encoding="utf-8") == text:
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return True
