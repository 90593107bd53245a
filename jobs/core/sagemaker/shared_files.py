"""Where a training container finds the FSx for Lustre of its cluster: SageMaker mounts it as a channel."""

from __future__ import annotations

SHARED_CHANNEL = "shared"
SHARED_FILES = f"/opt/ml/input/data/{SHARED_CHANNEL}"
