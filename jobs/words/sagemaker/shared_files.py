"""Where a training container finds the FSx for Lustre of its cluster: SageMaker mounts it as a channel."""

from __future__ import annotations

from slipway.jobs.words.sagemaker.places import channel_folder

SHARED_CHANNEL = "shared"
SHARED_FILES = channel_folder(SHARED_CHANNEL)
