"""Every image has a base that cannot move, and packages with hashes; this is known before it is built."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from slipway.jobs.words.images.containers import image_names

ROOT = Path(__file__).resolve().parents[3]
CONTAINERS = ROOT / "containers"
SITE = ROOT / "scripts" / "locks" / "site.txt"  # builds docs/ and runs none of our code
IMAGES = image_names(CONTAINERS)
RUNS_AS_ROOT = {
    "gaudi": "It runs as root",
    "gpu": "It runs as root",
    "neuron": "It runs as root",
}  # and the words by which its Dockerfile says why
REQUIREMENTS = [
    path.relative_to(ROOT).as_posix() for path in sorted(CONTAINERS.glob("images/*/*.txt"))
]  # each belongs to the image of its folder
# Of the vendor's own stack, whose PyTorch and numpy nothing here can install.
VENDORS_OWN = {"containers/images/gaudi-mpi/training.txt"}
EXACT = re.compile(r"(?P<name>[\w.-]+)==(?P<version>[\w.]+)(?:\+\w+)? ")


def lines(image: str) -> list[str]:
    return (CONTAINERS / "images" / image / "Dockerfile").read_text(encoding="utf-8").splitlines()


def comment_above(image: str, number: int) -> str:
    every = lines(image)
    start = number
    while start and every[start - 1].startswith("#"):
        start -= 1
    return " ".join(every[start:number])


def bases(image: str) -> dict[int, str]:
    """Find bases line by line; a stage that continues another stage of the file has no base of its own."""
    found = {at: line.split() for at, line in enumerate(lines(image)) if line.startswith("FROM ")}
    stages = {words[3] for words in found.values() if len(words) == 4}
    return {at: words[1] for at, words in found.items() if words[1] not in stages}


def locked(path: Path) -> list[tuple[str, str]]:
    requirements = path.read_text(encoding="utf-8").splitlines()
    return [(found["name"], found["version"]) for line in requirements if (found := EXACT.match(line))]


def test_there_are_the_images_that_the_road_needs() -> None:
    assert {"cpu", "gaudi"} <= set(IMAGES)


@pytest.mark.parametrize("image", IMAGES)
def test_a_base_is_named_by_digest_or_the_dockerfile_says_why_not(image: str) -> None:
    assert bases(image)
    for at, base in bases(image).items():
        assert re.search(r":[\w.-]+", base), f"{image}: {base} has no tag, which means latest"
        assert ":latest" not in base
        if not re.search(r"@sha256:[0-9a-f]{64}$", base):
            assert "not by digest" in comment_above(image, at), (
                f"{image}: {base} may move, and nobody says why"
            )


@pytest.mark.parametrize("image", IMAGES)
def test_jobs_do_not_run_as_root_where_the_platform_allows_another(image: str) -> None:
    users = [line.split()[1].split(":")[0] for line in lines(image) if line.startswith("USER ")]
    if image in RUNS_AS_ROOT:
        assert RUNS_AS_ROOT[image] in "".join(lines(image))
    else:
        assert users
        assert users[-1] not in ("root", "0")


@pytest.mark.parametrize("path", REQUIREMENTS)
def test_every_package_of_an_image_is_one_exact_file(path: str) -> None:
    text = (ROOT / path).read_text(encoding="utf-8").replace("\\\n", " ")
    packages = [line for line in text.splitlines() if line and not line.startswith("#")]
    assert packages
    for package in packages:
        assert EXACT.match(package), f"{path}: {package.split()[0]} has no exact version"
        assert "--hash=sha256:" in package, f"{path}: {package.split()[0]} has no hash"


@pytest.mark.parametrize("path", sorted({*REQUIREMENTS} - VENDORS_OWN))
def test_an_image_holds_the_versions_that_are_tested_here(path: str) -> None:
    tested: dict[str, set[str]] = {}  # a version for each Python, where a package dropped one
    for lock in sorted({*(ROOT / "scripts" / "locks").glob("*.txt")} - {SITE}):
        for name, version in locked(lock):
            tested.setdefault(name, set()).add(version)
    found = dict(locked(ROOT / path))
    assert found.keys() & tested.keys()
    assert {
        name: version for name, version in found.items() if version not in tested.get(name, {version})
    } == {}


@pytest.mark.parametrize("image", IMAGES)
def test_pip_refuses_what_has_no_hash(image: str) -> None:
    text = "\n".join(lines(image)).replace("\\\n", " ")
    for install in re.findall(r"pip install [^&\n]*", text):
        assert "--no-deps" in install
        is_fork = "git+https://github.com/HabanaAI/DeepSpeed.git@1.18.0" in install
        assert is_fork or "--require-hashes" in install, install
