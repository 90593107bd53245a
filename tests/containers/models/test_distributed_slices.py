"""A model saved by torch.distributed.checkpoint is read like one of transformers, and no code of it runs."""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers", reason="the extra 'compare' is not installed")

import torch
from torch import distributed, multiprocessing
from torch.distributed import checkpoint as library
from torch.distributed.checkpoint.state_dict import get_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from slipway.containers.data.errors import DataError
from slipway.containers.models.distributed_slices import METADATA
from slipway.containers.models.published import open_model
from slipway.containers.runtime.checkpoint.boxes import Box
from slipway.containers.runtime.errors import Refusal
from tests.containers.models import published_models as models

pytestmark = pytest.mark.filterwarnings("ignore")  # of what transformers and the library import
FILE = "__0_0.distcp"


def save(folder: Path, theirs: Any, state: Mapping[str, object]) -> None:
    library.save(dict(state), checkpoint_id=folder, no_dist=True)
    theirs.config.save_pretrained(folder)


@pytest.mark.parametrize("kind", ["bert", "distilbert", "gptj", "neox", "neox tied"])
def test_what_the_library_saved_answers_here_as_there(kind: str, tmp_path: Path) -> None:
    theirs = models.make(kind)
    save(tmp_path, theirs, theirs.state_dict())
    ours, _ = models.load(tmp_path)
    torch.testing.assert_close(models.answers(ours), models.their_answers(theirs), rtol=2e-5, atol=2e-5)


def test_what_else_trains_may_lie_beside_the_model(tmp_path: Path) -> None:
    theirs = models.make("gptj")
    optimizer = torch.optim.AdamW(theirs.parameters())
    models.their_answers(theirs).sum().backward()
    optimizer.step()
    parts = get_state_dict(theirs, optimizer)
    save(tmp_path, theirs, dict(zip(("model", "optim"), parts, strict=True)))
    ours, _ = models.load(tmp_path)
    torch.testing.assert_close(models.answers(ours), models.their_answers(theirs), rtol=2e-5, atol=2e-5)


def test_tensors_that_lie_in_other_orders_and_types_are_what_they_were(tmp_path: Path) -> None:
    theirs = models.make("neox")
    turned = {name: each.detach() for name, each in theirs.state_dict().items()}
    turned = {name: each.t().contiguous().t() if each.ndim == 2 else each for name, each in turned.items()}
    save(tmp_path, theirs, {name: each.to(torch.bfloat16) for name, each in turned.items()})
    ours, _ = models.load(tmp_path)
    models.save("neox", tmp_path / "half", state_dict={k: v.to(torch.bfloat16) for k, v in turned.items()})
    half, _ = models.load(tmp_path / "half")
    assert torch.equal(models.answers(ours), models.answers(half))


def _save_share(rank: int, folder: Path) -> None:
    """Save one rank's share of a model that FSDP2 cuts."""
    distributed.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2)
    theirs = models.make("gptj")
    fully_shard(theirs, mesh=init_device_mesh("cpu", (2,)))
    library.save(theirs.state_dict(), checkpoint_id=folder / "saved")
    distributed.destroy_process_group()
    os._exit(0)  # Python's own end may meet a thread of gloo that lives on, and abort


@pytest.mark.long  # two processes that import transformers
def test_shares_that_several_ranks_saved_are_one_model(tmp_path: Path) -> None:
    multiprocessing.spawn(_save_share, (tmp_path,), nprocs=2)
    theirs = models.make("gptj")
    theirs.config.save_pretrained(tmp_path / "saved")
    assert len(list((tmp_path / "saved").glob("*.distcp"))) == 2
    ours, _ = models.load(tmp_path / "saved")
    torch.testing.assert_close(models.answers(ours), models.their_answers(theirs), rtol=2e-5, atol=2e-5)


class Cutting(library.DefaultSavePlanner):  # type: ignore[misc]  # torch counts as untyped
    """Save each matrix in four boxes, as ranks in two dimensions would."""

    def create_local_plan(self) -> library.SavePlan:
        plan = super().create_local_plan()
        self.plan = replace(plan, items=[part for item in plan.items for part in _boxes(item)])
        return self.plan

    def resolve_data(self, item: library.planner.WriteItem) -> torch.Tensor:
        chunk = item.tensor_data.chunk
        return self.state_dict[item.index.fqn][Box(tuple(chunk.offsets), tuple(chunk.sizes)).slices]


def _boxes(item: library.planner.WriteItem) -> Iterator[library.planner.WriteItem]:
    rows, *others = item.tensor_data.size
    edges = [((0, rows // 3), (rows // 3, rows)), *(((0, side // 2), (side // 2, side)) for side in others)]
    for spans in product(*edges):
        offsets, sizes = torch.Size(low for low, _ in spans), torch.Size(high - low for low, high in spans)
        chunk = library.metadata.ChunkStorageMetadata(offsets, sizes)
        kind = library.planner.WriteItemType.SHARD
        index = library.metadata.MetadataIndex(item.index.fqn, offsets)
        yield replace(item, index=index, type=kind, tensor_data=replace(item.tensor_data, chunk=chunk))


@pytest.mark.parametrize("kind", ["bert", "gptj", "neox"])
def test_tensors_in_boxes_are_whole_and_a_rank_reads_those_that_it_needs(kind: str, tmp_path: Path) -> None:
    theirs = models.make(kind)
    library.save(theirs.state_dict(), checkpoint_id=tmp_path, no_dist=True, planner=Cutting())
    theirs.config.save_pretrained(tmp_path)
    ours, found = models.load(tmp_path)
    torch.testing.assert_close(models.answers(ours), models.their_answers(theirs), rtol=2e-5, atol=2e-5)
    weights = found.weights()
    for name, each in ours.named_parameters():
        sizes = tuple(each.shape)
        box = Box(tuple(side // 4 for side in sizes), tuple(side // 2 for side in sizes))
        assert torch.equal(weights.read(name, box, sizes), each[box.slices]), name


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    theirs = models.make("gptj")
    save(tmp_path, theirs, theirs.state_dict())
    return tmp_path


def test_a_model_in_s3_is_that_of_the_folder(saved: Path, s3: Any) -> None:
    pytest.importorskip("obstore")
    s3.create_bucket(Bucket="saved-elsewhere")
    for path in saved.iterdir():
        s3.put_object(Bucket="saved-elsewhere", Key=f"theirs/{path.name}", Body=path.read_bytes())
    here, there = (open_model(place).weights() for place in (str(saved), "s3://saved-elsewhere/theirs"))
    assert here.fingerprint() == there.fingerprint()
    name, sizes = "layers.1.mlp.up.weight", (48, 32)
    assert torch.equal(*(each.read(name, Box((8, 0), (16, 32)), sizes) for each in (here, there)))


class Evil:
    def __init__(self, command: str) -> None:
        self.command = command

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, (self.command,)


def test_a_pickle_that_would_run_something_runs_nothing(saved: Path, tmp_path: Path) -> None:
    mark = tmp_path / "it ran"
    (saved / METADATA).write_bytes(pickle.dumps(Evil(f"touch '{mark}'")))
    with pytest.raises(Refusal, match=r"has a \.metadata that torch.distributed.checkpoint did not write"):
        open_model(str(saved)).weights()
    assert not mark.exists()


def test_a_tensor_that_would_run_something_runs_nothing(saved: Path, tmp_path: Path) -> None:
    mark, path = tmp_path / "it ran", saved / FILE
    size = path.stat().st_size
    torch.save(Evil(f"touch '{mark}'"), path)
    with path.open("ab") as file:
        file.truncate(size)
    with pytest.raises(Refusal, match="has a damaged part of"):
        models.load(saved)
    assert not mark.exists()


@pytest.mark.parametrize("damage", ["a bit", "cut off", "gone", "no metadata"])
def test_damage_is_one_line(saved: Path, damage: str) -> None:
    path = saved / FILE
    content = bytearray(path.read_bytes())
    if damage == "a bit":
        place = content.find(models.make("gptj").transformer.wte.weight.detach().numpy().tobytes())
        assert place > 0
        content[place] ^= 1
        path.write_bytes(content)
    elif damage == "cut off":
        path.write_bytes(content[:-1000])
    elif damage == "gone":
        path.rename(saved / "__7_0.distcp")
    else:
        (saved / METADATA).unlink()
    with pytest.raises((Refusal, DataError), match=f"damaged part|lacks the part|{METADATA}"):
        models.load(saved)
