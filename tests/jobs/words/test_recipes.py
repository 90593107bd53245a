"""Every recipe has a folder and a line in the registry, and reading it needs only a laptop's packages."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from slipway.containers.runtime.contract.settings import ACCELERATOR_FILES
from slipway.jobs.words.catalogue.hardware import FAMILIES, device_of, ranks_of
from slipway.jobs.words.catalogue.instances import instance_type, instance_types
from slipway.jobs.words.images.containers import LockedTorch
from slipway.jobs.words.job import DoesNotFit, InvalidJob
from slipway.jobs.words.recipes import (
    RECIPES,
    find_recipe,
    idle_accelerators,
    refuse_array,
    refuse_hardware,
    refuse_ranks,
    refuse_settings,
    refuse_torch,
)

FOLDER = Path(__file__).resolve().parents[3] / "containers" / "recipes"


def test_every_folder_of_recipes_is_listed_and_every_listed_recipe_has_a_folder() -> None:
    folders = {path.parent.name for path in FOLDER.glob("*/config.py")}
    assert folders == set(RECIPES)
    assert {name: f"slipway.containers.recipes.{name}.config" for name in RECIPES} == dict(RECIPES)


@pytest.mark.parametrize("name", sorted(RECIPES))
def test_what_a_recipe_runs_exists(name: str) -> None:
    recipe = find_recipe(name)
    assert find_spec(recipe.module) is not None
    assert recipe.accelerators


@pytest.mark.parametrize("name", sorted(RECIPES))
def test_reading_a_recipe_loads_nothing_heavy(name: str) -> None:
    find = f"from slipway.jobs.words import recipes; recipes.find_recipe('{name}')"
    code = f"import sys; {find}; print(*sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {each.split(".")[0] for each in ran.stdout.split()} & {
        "torch",
        "numpy",
        "h5py",
        "deepspeed",
        "boto3",
    }


def test_every_instance_type_has_an_accelerator_in_the_recipes_words() -> None:
    known = {device_of(each) for each in instance_types()}
    assert known == {"gaudi", "cuda", "neuron", "neuron2", "cpu"}
    assert {family.files for family in FAMILIES.values()} == set(ACCELERATOR_FILES)


def test_hardware_that_a_recipe_cannot_use_is_refused() -> None:
    recipe = find_recipe("bert_pretrain")
    refuse_hardware(recipe, instance_type("dl1.24xlarge"))
    with pytest.raises(DoesNotFit, match=r"cannot train on neuron, which is what trn1\.32xlarge has"):
        refuse_hardware(recipe, instance_type("trn1.32xlarge"))


def test_of_ours_only_own_commands_and_work_for_processors_run_on_trainium2() -> None:
    """Neuron documentation, "Best practices for training": trn2.48xlarge has "64 ranks per instance"."""
    trn2 = instance_type("trn2.48xlarge")
    assert ranks_of(trn2) == 64
    for recipe in map(find_recipe, RECIPES):
        if recipe.name == "command" or (not recipe.uses_accelerators and "neuron" in recipe.accelerators):
            refuse_hardware(recipe, trn2)
        else:
            with pytest.raises(
                DoesNotFit, match=r"cannot train on neuron2, which is what trn2\.48xlarge has"
            ):
                refuse_hardware(recipe, trn2)


GAUDI = LockedTorch(image="gaudi", version="2.4.0")
SAGEMAKER = LockedTorch(image="sagemaker-pytorch", version="2.13.0")


def test_a_layout_that_is_not_proved_on_the_image_s_pytorch_is_refused_by_both_versions() -> None:
    recipe, dl1 = find_recipe("bert_pretrain"), instance_type("dl1.24xlarge")
    said = (
        "sharded=8: its engine, native, is proved on PyTorch 2.13 and newer, and the image gaudi holds 2.4.0"
    )
    with pytest.raises(DoesNotFit, match=said):
        refuse_torch(recipe, {"sharded": "8"}, dl1, GAUDI)
    refuse_torch(recipe, {"size": "1.5b", "zero": "1"}, dl1, GAUDI)
    refuse_torch(recipe, {"sharded": "8"}, dl1, None)


def test_a_recipe_that_does_not_train_runs_on_any_pytorch() -> None:
    refuse_torch(find_recipe("smoke"), {}, instance_type("dl1.24xlarge"), GAUDI)


def test_the_article_s_gpt_j_and_gpt_neox_are_taken_where_their_roads_train_them() -> None:
    gptj = {"size": "gptj-6b", "model": "gpt-j-6b"}
    refuse_torch(find_recipe("gptj_finetune"), gptj, instance_type("ml.p4d.24xlarge"), SAGEMAKER)
    older = LockedTorch(image="neuron-slurm", version="2.5.1")
    neox = {"size": "neox-20b"}
    refuse_torch(find_recipe("gpt_neox"), neox, instance_type("trn1.32xlarge"), older)  # NxD's own
    with pytest.raises(DoesNotFit, match="tensor=8 and pipeline=4"):
        refuse_torch(find_recipe("gpt_neox"), neox, instance_type("p4d.24xlarge"), older)


def test_only_a_recipe_that_divides_its_work_takes_an_array_and_sets_the_shares_itself() -> None:
    tokens = find_recipe("prepare_tokens")
    refuse_array(tokens, {"input": "text.jsonl"})
    with pytest.raises(DoesNotFit, match=r"recipe 'gpt_neox'; allowed .* is prepare_tokens"):
        refuse_array(find_recipe("gpt_neox"), {})
    with pytest.raises(InvalidJob, match="--set share: is set, and --array gives each of its jobs"):
        refuse_array(tokens, {"share": "0/2"})


def test_all_settings_that_the_recipe_would_refuse_are_refused_here() -> None:
    recipe = find_recipe("bert_pretrain")
    refuse_settings(recipe, {"size": "tiny"})
    with pytest.raises(InvalidJob) as refusal:
        refuse_settings(recipe, {"size": "huge", "phase": "three"})
    assert len(refusal.value.problems) == 2


def test_accelerators_that_a_recipe_has_no_use_for_are_told_with_their_price() -> None:
    recipe = find_recipe("prepare_bert")
    (line,) = idle_accelerators(recipe, instance_type("dl1.24xlarge"), 16)
    assert "the 128 accelerators of 16 dl1.24xlarge idle" in line
    assert "209.74 USD an hour" in line
    assert "--nodes 1" in line
    assert list(idle_accelerators(recipe, instance_type("c6i.16xlarge"), 4)) == []
    assert list(idle_accelerators(find_recipe("bert_pretrain"), instance_type("dl1.24xlarge"), 16)) == []


@pytest.mark.parametrize(
    ("name", "settings", "said"),
    [
        (
            "gptj_finetune",
            {"sharded": "8", "micro_batch": "8"},
            "a global batch of 32 is not a multiple of 64",
        ),
        ("gptj_finetune", {"tensor": "4"}, "tensor=4 exceeds a node"),
        ("gpt_neox", {"size": "pythia-6.9b", "tensor": "1", "global_batch": "12"}, "not a multiple of 16"),
    ],
)
def test_ranks_that_cannot_share_the_work_are_refused_before_they_are_paid_for(
    name: str, settings: dict[str, str], said: str
) -> None:
    ranks_per_node = 2 if "exceeds" in said else 8
    with pytest.raises(DoesNotFit, match=said):
        refuse_ranks(find_recipe(name), settings, 8, ranks_per_node)


def test_ranks_that_share_the_work_are_taken_and_recipes_without_a_rule_take_any() -> None:
    refuse_ranks(
        find_recipe("gptj_finetune"), {"global_batch": "64", "sharded": "8", "micro_batch": "8"}, 8, 8
    )
    refuse_ranks(find_recipe("smoke"), {}, 3, 1)
