"""What a compile job was compiled for: a run that differs would compile again, on nodes that are paid for.

A compile job leaves a record in the compile cache. A run looks for one like itself there.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path

from slipway.containers.models.decoder import DecoderShape
from slipway.containers.recipes.gpt_neox.config import GptNeoxConfig
from slipway.containers.runtime import disk
from slipway.containers.runtime.errors import Refusal
from slipway.containers.training.session import Workplace

# Neuron's own variables: where compiled graphs are kept, and what its compiler is told.
CACHE, FLAGS = "NEURON_COMPILE_CACHE_URL", "NEURON_CC_FLAGS"
FOLDER = "slipway-compiled"
_ENDING = ".json"
_OF_CONFIG = (
    *("length", "micro_batch", "global_batch", "rotary", "optimizer", "clip_norm"),
    *("tensor", "pipeline", "sharded", "pipeline_schedule", "stages_per_rank"),
    *("checkpoint_activations", "offload_activations"),
)

CompileSettings = Mapping[str, int | float | str | None]


def compile_settings(config: GptNeoxConfig, shape: DecoderShape, place: Workplace) -> CompileSettings:
    """Return what the graphs of a step follow from: no learning rate, no seed, no number of steps."""
    asked = asdict(config)
    return {
        **{name: asked[name] for name in _OF_CONFIG},
        "engine": config.engine_name,
        "ranks": place.contract.world,
        "device": place.device.kind,
        "precision": place.device.precision_name,
        **{f"model_{name}": value for name, value in asdict(shape).items()},
        FLAGS: os.environ.get(FLAGS, ""),
    }


def write_compiled(settings: CompileSettings) -> str:
    """Leave the record of a compile job; return a line that says where."""
    folder = _folder()
    if folder is None:
        return f"no record is left of what was compiled: {CACHE} names no folder"
    folder.mkdir(parents=True, exist_ok=True)
    content = json.dumps(settings, indent=1, sort_keys=True).encode()
    path = folder / f"{hashlib.sha256(content).hexdigest()[:16]}{_ENDING}"
    disk.replace_file(path, content, token=f"{os.getpid()}.new")
    return f"compiled for these settings: {path}"


def check_compiled(settings: CompileSettings, say: Callable[[str], None]) -> None:
    """Raise Refusal if jobs compiled into this cache, and none of them for these settings."""
    folder = _folder()
    if folder is None:
        return
    records = [found for path in sorted(folder.glob(f"*{_ENDING}")) if (found := _read(path)) is not None]
    if not records:
        say(f"no job has compiled into {folder.parent}: the first steps compile, where the device does")
        return
    differing = min((_differences(settings, record) for record in records), key=len)
    if differing:
        raise Refusal(
            f"what was compiled into {folder.parent} differs from this run: {'; '.join(differing)}",
            hint="compile with the run's settings, or set compiled=any to compile on the way",
        )


def _differences(settings: CompileSettings, record: CompileSettings) -> list[str]:
    return [
        f"{name} was {record.get(name)!r}, and is {settings.get(name)!r}"
        for name in sorted({*settings, *record})
        if settings.get(name) != record.get(name)
    ]


def _folder() -> Path | None:
    """Return where records lie: none in S3, which the compiler reads by itself."""
    place = os.environ.get(CACHE, "")
    return Path(place) / FOLDER if place and "://" not in place else None


def _read(path: Path) -> CompileSettings | None:
    """Return a record, or None of a file that is none: it describes nothing."""
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None
