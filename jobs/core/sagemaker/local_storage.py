"""Which instance types bring disks of their own: SageMaker uses these in place of a volume.

Such a type takes no key of yours for its volume, since its hardware encrypts the disks, and no larger volume
than these (SageMaker API Reference, ResourceConfig, VolumeKmsKeyId and VolumeSizeInGB).
"""

from __future__ import annotations

import re

# Families whose every size has NVMe disks (EC2 User Guide, "Instance store volumes"), and the letter d that
# stands for them in others: c5d, m5d, r5d, c6id.
_FAMILIES = frozenset({"dl1", "g4dn", "g5", "g6", "g6e", "p3dn", "p4d", "p4de", "p5", "p5e", "p5en"})
_NEURON = re.compile(r"trn[0-9]+n?")
_LETTER = re.compile(r"[cmr][0-9]+[agi]?d")


def has_local_storage(instance_type: str) -> bool:
    """Return True if SageMaker mounts the type's own disks."""
    family = instance_type.removeprefix("ml.").split(".")[0]
    return family in _FAMILIES or bool(_NEURON.fullmatch(family) or _LETTER.fullmatch(family))
