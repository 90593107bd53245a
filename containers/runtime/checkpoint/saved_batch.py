"""The global batch of the training that a new attempt continues, before any rank has built anything."""

from __future__ import annotations

from slipway.containers.runtime.checkpoint.manifest import DamagedCheckpoint, OtherFormat
from slipway.containers.runtime.checkpoint.storage import Storage
from slipway.containers.runtime.checkpoint.verify import read_manifest


def saved_batch(storage: Storage) -> int | None:
    """Return the global batch that the newest readable checkpoint was saved with; None if there is none."""
    for step in storage.steps():
        try:
            batch = read_manifest(storage, step).config.get("global_batch")
        except (DamagedCheckpoint, OtherFormat):
            continue
        return batch if isinstance(batch, int) else None
    return None
