"""An image's tag names exactly the files that make it, on every machine."""

from pathlib import Path

import pytest

from slipway.jobs.words.errors import SlipwayError
from slipway.jobs.words.images.containers import image_names, image_tag, source_files


@pytest.fixture
def containers(tmp_path: Path) -> Path:
    for name, text in {
        "images/gaudi/Dockerfile": "FROM scratch\n",
        "images/gaudi/lock.toml": "",
        "images/cpu/Dockerfile": "FROM scratch\n",
        "runtime/launch.py": "run()\n",
        "__init__.py": "",
    }.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def _names(containers: Path, image: str) -> list[str]:
    return [path.relative_to(containers).as_posix() for path in source_files(containers, image)]


def test_an_image_is_made_of_its_own_folder_and_all_that_images_share(containers: Path) -> None:
    assert image_names(containers) == ("cpu", "gaudi")
    assert _names(containers, "gaudi") == [
        "__init__.py",
        "images/gaudi/Dockerfile",
        "images/gaudi/lock.toml",
        "runtime/launch.py",
    ]


@pytest.mark.parametrize(
    "junk", ["runtime/__pycache__/launch.pyc", "runtime/.launch.py.swp", ".git/config", "a.py~"]
)
def test_what_tools_leave_behind_changes_no_tag(containers: Path, junk: str) -> None:
    before = image_tag(containers, "gaudi")
    (containers / junk).parent.mkdir(exist_ok=True)
    (containers / junk).write_text("left behind")
    assert image_tag(containers, "gaudi") == before


def test_another_images_change_leaves_the_tag(containers: Path) -> None:
    before = image_tag(containers, "gaudi")
    (containers / "images/cpu/Dockerfile").write_text("FROM other\n")
    assert image_tag(containers, "gaudi") == before
    assert image_tag(containers, "cpu") != before


def test_a_changed_renamed_or_newly_executable_file_changes_the_tag(containers: Path) -> None:
    launch = containers / "runtime/launch.py"
    tags = [image_tag(containers, "gaudi")]
    launch.write_text("run( )\n")
    tags.append(image_tag(containers, "gaudi"))
    launch.chmod(0o755)
    tags.append(image_tag(containers, "gaudi"))
    start = launch.rename(containers / "runtime/start.py")
    tags.append(image_tag(containers, "gaudi"))
    for texts in (("xy", "z"), ("x", "yz")):  # bytes that move from one file to the next
        for name, text in zip("ab", texts, strict=True):
            start.with_name(name).write_text(text)
        tags.append(image_tag(containers, "gaudi"))
    assert len(set(tags)) == 6


@pytest.mark.parametrize("target", ["/etc/passwd", "."], ids=["out of the folder", "round in a circle"])
def test_a_symbolic_link_is_refused(containers: Path, target: str) -> None:
    (containers / "runtime/link").symlink_to(containers / target)
    with pytest.raises(SlipwayError, match="runtime/link is a symbolic link"):
        image_tag(containers, "gaudi")


def test_an_unknown_image_is_refused_with_the_nearest(containers: Path) -> None:
    with pytest.raises(SlipwayError, match="no image 'gaudy'") as refusal:
        image_tag(containers, "gaudy")
    assert refusal.value.hint == "did you mean gaudi?"
