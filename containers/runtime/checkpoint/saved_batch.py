"""The global batch of the training that a new attempt continues, before any rank has built anything."""

from __future__ import annotations

from pathlib import Path

from slipway.containers.runtime.checkpoint.manifest import DamagedCheckpoint, NewerCheckpoint, read_manifest
from slipway.containers.runtime.checkpoint.resume import published


def saved_batch(folder: Path) -> int | None:
    """Return the global batch that the newest readable checkpoint was saved with; None if there is none."""
    for path in published(folder).values():
        try:
            batch = read_manifest(path).config.get("global_batch")
        except (DamagedCheckpoint, NewerCheckpoint):
            continue
        return batch if isinstance(batch, int) else None
    return None
