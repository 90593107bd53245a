"""A machine image's lock has a hash or key for every source, and its values reach the components."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from slipway.jobs.words.images.ami_locks import (
    TO_BE_FILLED,
    is_newer,
    kernel_numbers,
    lock_digest,
    lock_parameters,
    lock_path,
    lock_problems,
    locked_parent,
    machine_image_names,
    serial_of,
    unfilled,
)
from slipway.jobs.words.images.containers import apart, read_lock, unsupported

CONTAINERS = Path(__file__).parents[4] / "containers"
# Files from vendors' addresses, checked by a checksum or by a signature, which is valid for every version.
HELD = re.compile(r"(?:Downloads|Signed)(\w+?)(?:Url|Signature)")
SOUND = f"""
[host]
efa = "1.47.0"

[apt]
snapshot = "20261120T000000Z"
packages = ["dkms", "gnupg"]

[downloads.efa]
url = "https://efa-installer.amazonaws.com/aws-efa-installer-1.47.0.tar.gz"
sha256 = "{"0a" * 32}"

[repositories.neuron]
url = "https://apt.repos.neuron.amazonaws.com"
suite = "jammy"
key = "https://apt.repos.neuron.amazonaws.com/KEY.PUB"
fingerprint = "{"0A" * 20}"
"""


def write(folder: Path, text: str) -> Path:
    path = lock_path(folder, "trn")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return folder


def said(folder: Path) -> str:
    return "\n".join(map(str, lock_problems(folder, "trn")))


def test_a_sound_lock_has_no_problems_and_components_know_a_value_by_its_path(tmp_path: Path) -> None:
    assert "trn/lock.toml: is missing" in said(tmp_path)
    assert "is not valid TOML" in said(write(tmp_path, "[host"))
    assert lock_problems(write(tmp_path, SOUND), "trn") == ()
    parameters = lock_parameters(tmp_path, "trn")
    assert parameters["HostEfa"] == "1.47.0"
    assert parameters["AptPackages"] == "dkms gnupg"
    assert parameters["DownloadsEfaSha256"] == "0a" * 32
    assert parameters["RepositoriesNeuronFingerprint"] == "0A" * 20


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ('sha256 = "0a', 'sha256 = "0g', "[downloads.efa]: has sha256 = "),
        (f'sha256 = "{"0a" * 32}"', "", "[downloads.efa]: lacks sha256"),
        (f'sha256 = "{"0a" * 32}"', f'sha256 = "{TO_BE_FILLED}"', "has no sha256 yet, and needs one"),
        ('url = "https://efa', 'url = "http://efa', "not an https address"),
        ('fingerprint = "0A', 'fingerprint = "0a', "[repositories.neuron]: has fingerprint"),
        ('suite = "jammy"', 'suite = "jammy main"', "[repositories.neuron]: has suite"),
        ('"gnupg"]', '"gnupg; reboot"]', "not a list of names"),
        ('efa = "1.47.0"', 'efa = "1.47.0\'$(reboot)"', "[host]: has efa"),
        ('efa = "1.47.0"', 'ami_id = "1"', "[host]: has a component ami_id, as a manifest calls a fact"),
        ("[host]", "[hosts]", "[hosts]: is no table of a lock"),
        ("20261120T000000Z", "latest", "[apt]: has snapshot = 'latest'"),
        ('suite = "jammy"', 'suite = "jammy"\nmore = "1"', "has the unknown more"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(tmp_path: Path, old: str, new: str, expected: str) -> None:
    assert old in SOUND
    assert expected in said(write(tmp_path, SOUND.replace(old, new)))


def test_every_mistake_is_said_at_once(tmp_path: Path) -> None:
    text = SOUND.replace("https://", "http://").replace("20261120T000000Z", "today")
    assert len(lock_problems(write(tmp_path, text), "trn")) == 4


def test_the_digest_changes_with_every_file_of_the_folder(tmp_path: Path) -> None:
    first = lock_digest(write(tmp_path, SOUND), "trn")
    assert lock_digest(tmp_path, "trn") == first
    (tmp_path / "images" / "trn" / "requirements.txt").write_text("torch\n", encoding="utf-8")
    assert lock_digest(tmp_path, "trn") != first


def test_every_machine_image_has_a_sound_lock() -> None:
    assert machine_image_names(CONTAINERS) == ("cpu-mpi", "gaudi-ecs", "gaudi-mpi", "neuron-slurm")
    for image in machine_image_names(CONTAINERS):
        assert lock_problems(CONTAINERS, image) == ()


@pytest.mark.parametrize(
    ("image", "accelerator"),
    [
        ("gaudi-ecs", "Habana Gaudi HL-205"),
        ("gaudi-mpi", "Habana Gaudi HL-205"),
        ("neuron-slurm", "Trainium1"),
    ],
)
def test_what_is_baked_still_supports_its_accelerator(image: str, accelerator: str) -> None:
    lock = read_lock(CONTAINERS, image)
    assert lock is not None
    assert unsupported(accelerator, lock) == ()
    assert apart(lock) == ()


def test_ranks_of_gaudi_with_or_without_a_container_have_what_the_container_asks_for() -> None:
    container, beside, alone = (read_lock(CONTAINERS, name) for name in ("gaudi", "gaudi-ecs", "gaudi-mpi"))
    assert container is not None
    assert beside is not None
    assert alone is not None
    assert container.host.items() <= beside.host.items()
    assert container.host.items() <= alone.host.items()
    training = {name: alone.host[f"training-{name}"] for name in ("python", "pytorch")}
    held = {**training, "synapseai": alone.host["synapseai"], "deepspeed": alone.host["deepspeed"]}
    assert held == container.image


def test_both_images_over_mpi_have_the_same_python_of_their_own() -> None:
    """So c6i tries at a fifth of the price what joins a cluster and runs jobs there."""
    first, second = (CONTAINERS / "images" / name / "requirements.txt" for name in ("cpu-mpi", "gaudi-mpi"))
    assert first.read_bytes() == second.read_bytes()


def test_a_file_without_a_published_checksum_is_named_until_its_checksum_is_written(tmp_path: Path) -> None:
    unlisted = f'\n[unlisted.wheels]\nurl = "https://example.org/a.tgz"\nsha256 = "{TO_BE_FILLED}"\n'
    folder = write(tmp_path, SOUND + unlisted)
    assert lock_problems(folder, "trn") == ()
    assert unfilled(folder, "trn") == ("wheels",)
    assert unfilled(write(tmp_path, SOUND + unlisted.replace(TO_BE_FILLED, "0a" * 32)), "trn") == ()


@pytest.mark.parametrize("image", machine_image_names(CONTAINERS))
def test_a_version_that_is_named_is_the_one_that_is_downloaded(image: str) -> None:
    parameters = lock_parameters(CONTAINERS, image)
    downloads = [name for name in parameters if HELD.fullmatch(name)]
    assert downloads
    for name in downloads:
        named = HELD.sub(r"Host\1", name)
        assert parameters[named] in parameters[name], f"{name} is not of {parameters[named]}"


def test_the_python_lock_holds_the_pytorch_that_is_named_and_fits_the_other_locks() -> None:
    locked = _exact((CONTAINERS / "images" / "cpu-mpi" / "requirements.txt").read_text(encoding="utf-8"))
    assert locked["torch"].partition("+")[0] == lock_parameters(CONTAINERS, "cpu-mpi")["HostPytorch"]
    for group in ("training", "submit"):
        ours = _exact((CONTAINERS.parent / "scripts" / "locks" / f"{group}.txt").read_text(encoding="utf-8"))
        shared = (ours.keys() & locked.keys()) - {"torch"}
        assert {"boto3", "urllib3"} & shared
        assert {name: locked[name] for name in shared} == {name: ours[name] for name in shared}


def _exact(text: str) -> dict[str, str]:
    """Keep the lines for 3.11 in a lock for several Pythons."""
    lines = [line for line in text.splitlines() if "==" in line and not line.startswith((" ", "#"))]
    here = [line for line in lines if "python_full_version >=" not in line.partition(";")[2]]
    return dict(line.split(";")[0].rstrip(" \\").split("==") for line in here)


# A parent AMI and the packages of a lock go together, or the lock says which of the two is newer.


PARENT = '[parent]\nserial = "20261118"\nkernel = "6.14.0-1017-aws"\n'
KERNEL = 'snapshot = "20261120T000000Z"\nkernel = "6.14.0-1018-aws"'
PINNED = PARENT + SOUND.replace('snapshot = "20261120T000000Z"', KERNEL)


def test_a_lock_with_a_parent_that_fits_is_sound_and_tells_components_nothing_more(tmp_path: Path) -> None:
    folder = write(tmp_path, PINNED)
    assert lock_problems(folder, "trn") == ()
    found = locked_parent(folder, "trn")
    assert found is not None
    assert found.serial == "20261118"
    assert lock_parameters(folder, "trn") == lock_parameters(write(tmp_path, SOUND), "trn")


def test_a_lock_without_a_parent_pins_none(tmp_path: Path) -> None:
    assert locked_parent(write(tmp_path, SOUND), "trn") is None


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ('serial = "20261118"', 'serial = "20261121"', "newer than the packages of 20261120T000000Z"),
        ("6.14.0-1017-aws", "6.14.0-1019-aws", "is newer than 6.14.0-1018-aws, the newest of the packages"),
        ("6.14.0-1017-aws", "6.17.0-1001-aws", "is newer than 6.14.0-1018-aws, the newest of the packages"),
        (
            'serial = "20261118"',
            'serial = "current"',
            "[parent]: has serial = 'current', not a serial such as",
        ),
        ('serial = "20261118"\n', "", "[parent]: lacks serial"),
        ('serial = "20261118"', 'day = "20261118"', "[parent]: has the unknown day"),
    ],
)
def test_a_parent_that_does_not_fit_is_said(tmp_path: Path, old: str, new: str, expected: str) -> None:
    assert old in PINNED
    assert expected in said(write(tmp_path, PINNED.replace(old, new, 1)))


@pytest.mark.parametrize(
    ("name", "serial"),
    [
        ("ubuntu/images/hvm-ssd-gp3/ubuntu-noble-24.04-amd64-server-20261118", "20261118"),
        ("ubuntu/images/hvm-ssd/ubuntu-jammy-22.04-amd64-server-20261103.1", "20261103.1"),
        ("my-own-image-20261118", None),
        ("", None),
    ],
)
def test_the_name_of_canonical_s_ami_tells_its_release(name: str, serial: str | None) -> None:
    assert serial_of(name) == serial


@pytest.mark.parametrize(
    ("serial", "newer"), [("20261119", False), ("20261120.1", False), ("20261121", True), ("20270101", True)]
)
def test_a_release_is_compared_by_its_day(serial: str, newer: bool) -> None:
    assert is_newer(serial, "20261120T000000Z") is newer


def test_kernels_are_compared_by_their_numbers_and_not_as_text() -> None:
    assert kernel_numbers("6.14.0-1018-aws") > kernel_numbers("6.14.0-999-aws")
