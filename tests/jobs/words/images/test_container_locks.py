"""Driver, runtime and framework are one lock: differences and ended support are named."""

from pathlib import Path

import pytest

from slipway.jobs.words.errors import SlipwayError
from slipway.jobs.words.images.containers import (
    Lock,
    apart,
    locked_torch,
    manifest_parameter,
    mismatches,
    read_lock,
    unsupported,
)
from slipway.jobs.words.installation import containers_folder

GAUDI = "Habana Gaudi HL-205"


def lock(version: str) -> Lock:
    return Lock(image={"synapseai": version}, host={"synapseai": version})


def write(containers: Path, text: str) -> Path:
    folder = containers / "images" / "gaudi"
    folder.mkdir(parents=True)
    (folder / "lock.toml").write_text(text)
    return containers


def test_a_lock_is_read_from_the_folder_of_its_image(tmp_path: Path) -> None:
    text = '[image]\nsynapseai = "1.18.0"\npytorch = "2.4.0"\n[host]\nsynapseai = "1.18.0"\n'
    found = read_lock(write(tmp_path, text), "gaudi")
    assert found == Lock(image={"synapseai": "1.18.0", "pytorch": "2.4.0"}, host={"synapseai": "1.18.0"})


@pytest.mark.parametrize(
    ("image", "version"),
    [
        ("cpu", "2.13.0"),
        ("gaudi", "2.4.0"),
        ("gaudi-mpi", "2.4.0"),  # the vendor's, not the one of the node's programs
        ("neuron-slurm", "2.9.0"),
        ("sagemaker-pytorch", "2.13.0"),
    ],
)
def test_the_pytorch_of_an_image_is_the_one_that_ranks_run_on(image: str, version: str) -> None:
    found = locked_torch(containers_folder(), image)
    assert found is not None
    assert (found.image, found.version) == (image, version)


@pytest.mark.parametrize("image", ["gaudi-ecs", "an-image-of-my-own"])
def test_an_image_whose_lock_names_no_pytorch_leaves_that_to_the_ranks(image: str) -> None:
    assert locked_torch(containers_folder(), image) is None


def test_an_image_without_a_lock_has_none(tmp_path: Path) -> None:
    assert read_lock(tmp_path, "cpu") is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("synapseai: 1.18", "is not valid TOML"),
        ("[host]\nsynapseai = 1.10\n", r"\[host\] of"),
        ("host = 1\n", r"\[host\] of"),
    ],
)
def test_a_lock_that_is_none_is_refused_by_its_file(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(SlipwayError, match=said) as refusal:
        read_lock(write(tmp_path, text), "gaudi")
    assert "gaudi/lock.toml" in refusal.value.message


@pytest.mark.parametrize("version", ["1.22.0", "1.23", "2.0.0"])
def test_a_release_after_the_last_for_first_generation_gaudi_is_refused(version: str) -> None:
    (said,) = unsupported(GAUDI, lock(version))
    assert said == f"synapseai {version} no longer supports {GAUDI}; the last that does is 1.21"


@pytest.mark.parametrize("version", ["1.5.0", "1.18.0", "1.21.0", "1.21.3"])
def test_releases_up_to_the_last_are_taken(version: str) -> None:
    assert unsupported(GAUDI, lock(version)) == ()


def test_another_accelerator_is_not_judged_by_gaudi() -> None:
    assert unsupported("Trainium1", lock("1.22.0")) == ()


def test_only_what_the_lock_asks_of_the_host_is_compared() -> None:
    asked = Lock(image={"pytorch": "2.4.0"}, host={"synapseai": "1.18.0", "efa": "1.30"})
    assert mismatches(asked, {"synapseai": "1.18.0", "efa": "1.30", "more": "1"}) == ()
    assert mismatches(asked, {"synapseai": "1.18.1"}) == (
        "synapseai is 1.18.1, locked is 1.18.0",
        "efa is missing, locked is 1.30",
    )


def test_the_manifest_stands_beside_the_id_of_its_machine_image() -> None:
    assert manifest_parameter("/slipway/amis/gaudi-ecs/id") == "/slipway/amis/gaudi-ecs/manifest"


@pytest.mark.parametrize(("driver", "runtime"), [("2.26.10.0", "2.30.51.0"), ("2.29.0", "2.33.1")])
def test_a_neuron_driver_and_runtime_that_fit_are_taken(driver: str, runtime: str) -> None:
    assert apart(Lock(image={}, host={"neuron-driver": driver, "neuron-runtime": runtime})) == ()


def test_a_neuron_driver_that_is_too_new_for_the_runtime_is_refused() -> None:
    (said,) = apart(Lock(image={"neuron-runtime": "2.30.51.0"}, host={"neuron-driver": "2.29.5.0"}))
    assert said.startswith("neuron-driver 2.29.5.0 needs neuron-runtime 2.33 or later, and neuron-runtime is")
