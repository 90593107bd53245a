"""A saved training for other people's tools: python -m slipway.containers.training.give CHECKPOINTS TARGET

The newest checkpoint that verifies becomes TARGET/model: its weights in safetensors, as transformers has
them. With --form=dcp it becomes TARGET/dcp: weights and the optimizer's moments, by the same names, as
torch.distributed.checkpoint has them. Recipes take either by model= or start_from_model=.
Another form is a function that takes what is found, and a row of FORMS.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from slipway.containers.models.configs import config_of
from slipway.containers.models.decoder import DecoderShape
from slipway.containers.models.folder import ModelPlan, described, write_model
from slipway.containers.models.names import Shape, full_name, published_names, published_sizes, row_runs
from slipway.containers.models.shapes import EncoderShape
from slipway.containers.runtime import disk
from slipway.containers.runtime.checkpoint.resume import Resumed, Search
from slipway.containers.runtime.checkpoint.storage import reason
from slipway.containers.runtime.checkpoint.tensor_file import torch_type
from slipway.containers.runtime.collective import ALONE
from slipway.containers.runtime.errors import Refusal
from slipway.containers.training.start import open_storage
from slipway.containers.training.state import MOMENTS, WEIGHTS, SavedState

# By family: transformers' class of what our recipes train.
CLASSES: Mapping[str, str] = {
    "bert": "BertForPreTraining",
    "gptj": "GPTJForCausalLM",
    "neox": "GPTNeoXForCausalLM",
}
_SHAPE = "model_"  # begins the settings of a checkpoint that say which model it is


def give(checkpoints: str, target: Path, form: str, say: Callable[[str], None]) -> Path:
    """Write the newest good checkpoint into a folder of TARGET; return that folder."""

    def take(found: Resumed) -> None:
        try:
            target.mkdir(parents=True, exist_ok=True)
            FORMS[form](GivenState.of(found), target)
        except OSError as error:
            raise Refusal(f"cannot write {target}: {reason(error)}", hint="give a folder with room") from None

    Search(storage=open_storage(checkpoints), collective=ALONE, say=say, take=take).newest()
    return target / form


def give_model(saved: GivenState, target: Path) -> None:
    plan = ModelPlan(shape=saved.shape, sizes=saved.state.shapes)
    write_model(target, plan, partial(saved.state.read, WEIGHTS), saved.files())


def give_dcp(saved: GivenState, target: Path) -> None:
    """Write tensor by tensor what the library plans, so that no more than one is in memory."""
    from torch.distributed import checkpoint as library

    class Lazily(library.DefaultSavePlanner):
        def lookup_object(self, index: library.metadata.MetadataIndex) -> Tensor:
            return saved.read(index.fqn)

    try:
        with disk.new_folder(target / "dcp") as folder:
            library.save(saved.outline(), checkpoint_id=folder, planner=Lazily(), no_dist=True)
            for name, content in saved.files().items():
                disk.write_new(folder / name, [content])
    except library.CheckpointException as error:
        cause, _ = error.failures[0]
        if isinstance(cause, Refusal):  # of what it read
            raise cause from None
        raise Refusal(
            f"torch.distributed.checkpoint cannot write {target}: {cause}", hint="give a folder with room"
        ) from None


@dataclass(slots=True, kw_only=True)
class GivenState:
    """Read a saved training by the names of transformers."""

    found: Resumed
    state: SavedState
    shape: Shape
    _held: tuple[str, str, Tensor] | None = None  # what was read last: several of theirs make one of ours
    _wanted: dict[str, tuple[str, str, str]] = field(default_factory=dict)  # kind, our name, their plain one

    @classmethod
    def of(cls, found: Resumed) -> GivenState:
        state, shape = SavedState(found), _shape_of(found)
        given = cls(found=found, state=state, shape=shape)
        try:
            for name in state.shapes:
                published_names(shape.family, name)
        except KeyError:
            raise Refusal(
                f"{found} holds {name}, which no {shape.family} of transformers has",
                hint="adapters are given as the run leaves them, in adapter/ beside its checkpoints",
            ) from None
        return given

    def files(self) -> dict[str, bytes]:
        """Return the files to write beside the weights; the user adds the tokenizer."""
        return described(config_of(self.shape, CLASSES[self.shape.family]), {})

    def outline(self) -> dict[str, object]:
        """Return what is saved, without bytes, as get_state_dict of PyTorch names it."""
        model: dict[str, Tensor] = {}
        optimizer: dict[str, dict[str, Tensor]] = {}
        for parameter, sizes in self.state.shapes.items():
            for plain in published_names(self.shape.family, parameter):
                name = full_name(self.shape.family, plain)
                theirs = published_sizes(self.shape, parameter, sizes)
                model[name] = self._outlined(f"model.{name}", (WEIGHTS, parameter, plain), theirs)
                moments = {
                    kind: self._outlined(f"optim.state.{name}.{kind}", (kind, parameter, plain), theirs)
                    for kind in MOMENTS
                    if self.state.has(kind, parameter)
                }
                if moments:
                    self._wanted[f"optim.state.{name}.step"] = ("step", "", "")
                    optimizer[name] = {**moments, "step": torch.zeros((), device="meta")}
        return {"model": model, **({"optim": {"state": optimizer}} if optimizer else {})}

    def read(self, name: str) -> Tensor:
        """Return the tensor or value that the outline has under this name."""
        kind, parameter, plain = self._wanted[name]
        if kind == "step":
            return torch.tensor(float(self.found.step - self.state.left_out))
        if self._held is None or self._held[:2] != (kind, parameter):
            self._held = (kind, parameter, self.state.read(kind, parameter))
        whole = self._held[2]
        sizes = tuple(whole.shape)
        theirs = torch.empty(published_sizes(self.shape, parameter, sizes), dtype=whole.dtype)
        for run in row_runs(self.shape, parameter, sizes, 0, sizes[0]):
            if run.name == plain:
                theirs[run.begin : run.begin + run.rows] = whole[run.at : run.at + run.rows]
        return theirs

    def _outlined(self, name: str, wanted: tuple[str, str, str], sizes: tuple[int, ...]) -> Tensor:
        self._wanted[name] = wanted
        kind, parameter, _ = wanted
        dtype = torch_type(self.found.manifest.tensors[f"{kind}/{parameter}"].dtype)
        return torch.empty(sizes, dtype=dtype, device="meta")


FORMS: Mapping[str, Callable[[GivenState, Path], None]] = {"model": give_model, "dcp": give_dcp}


def _shape_of(found: Resumed) -> Shape:
    """Return the shape that the recipe saved with its settings."""
    told = {
        name.removeprefix(_SHAPE): value
        for name, value in found.manifest.config.items()
        if name.startswith(_SHAPE)
    }
    kind = DecoderShape if "rotary_dimensions" in told else EncoderShape
    try:
        shape: Shape = kind(**{name: told[name] for name in kind.__slots__ if name in told})  # type: ignore[arg-type]  # as `asdict` wrote them
        CLASSES[shape.family]
    except (TypeError, ValueError, KeyError):
        raise Refusal(
            f"{found} does not say which model it holds",
            hint="give a checkpoint of bert_pretrain, gpt_neox or gptj_finetune; glue_finetune leaves it",
        ) from None
    return shape


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m slipway.containers.training.give",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("checkpoints", help="the folder or s3:// address that a training saves to")
    parser.add_argument("target", type=Path, help="a folder on this machine")
    parser.add_argument("--form", choices=tuple(FORMS), default="model")
    options = parser.parse_args(arguments)
    warnings.filterwarnings("ignore", "torch.distributed is disabled")  # as this asks the library
    try:
        folder = give(options.checkpoints, options.target, options.form, partial(print, file=sys.stderr))
    except Refusal as refusal:
        print(f"error: {refusal}", file=sys.stderr)
        return 1
    print(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
