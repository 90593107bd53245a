"""Which files make an image, and the tag that names them: infra and `slipway build` compute the same one."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

from slipway.jobs.words.errors import SlipwayError
from slipway.jobs.words.suggestions import did_you_mean

_TAG_LENGTH = 16
# What tools leave behind: never part of an image, or its tag would differ from one machine to the next.
JUNK_FOLDERS = frozenset({"__pycache__"})
_JUNK_SUFFIXES = frozenset({".pyc", ".pyo", ".swp", ".orig", ".tmp"})


def image_names(containers: Path) -> tuple[str, ...]:
    return tuple(sorted(path.parent.name for path in containers.glob("images/*/Dockerfile")))


def image_tag(containers: Path, image: str) -> str:
    """Return a digest of the names, modes and bytes of the image's files."""
    digest = sha256()
    for path in source_files(containers, image):
        content = path.read_bytes()
        executable = bool(path.stat().st_mode & 0o100)
        digest.update(f"{path.relative_to(containers).as_posix()}\0{executable}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()[:_TAG_LENGTH]


def source_files(containers: Path, image: str) -> tuple[Path, ...]:
    """List all files under containers/ except other images' folders, in the same order everywhere."""
    known = image_names(containers)
    if image not in known:
        raise SlipwayError(
            f"there is no image '{image}' in {containers / 'images'}", hint=_suggest(image, known)
        )
    files = [path for path in _walk(containers) if _belongs(path.relative_to(containers), image)]
    return tuple(sorted(files, key=lambda path: path.relative_to(containers).as_posix()))


def code_files(containers: Path) -> tuple[Path, ...]:
    """List the code that jobs run: all files under containers/ except the images' folders."""
    files = [path for path in _walk(containers) if path.relative_to(containers).parts[0] != "images"]
    return tuple(sorted(files, key=lambda path: path.relative_to(containers).as_posix()))


def _walk(folder: Path) -> list[Path]:
    found: list[Path] = []
    for path in folder.iterdir():
        if _is_junk(path):
            continue
        if path.is_symlink():
            raise SlipwayError(
                f"{path} is a symbolic link, and an image is built only from the files of its own tree",
                hint="put the file itself there",
            )
        if not (path.is_dir() or path.is_file()):
            raise SlipwayError(
                f"{path} is not a regular file", hint="remove it: an image is built from files"
            )
        found += _walk(path) if path.is_dir() else [path]
    return found


def _is_junk(path: Path) -> bool:
    hidden = path.name.startswith(".") and path.name != ".dockerignore"
    return hidden or path.name in JUNK_FOLDERS or path.suffix in _JUNK_SUFFIXES or path.name.endswith("~")


def _belongs(path: Path, image: str) -> bool:
    return path.parts[0] != "images" or len(path.parts) < 3 or path.parts[1] == image


def _suggest(image: str, known: tuple[str, ...]) -> str:
    return did_you_mean(image, known, otherwise=f"there are {', '.join(known) or 'none'}")
