"""Which of the catalogue's types for training HyperPod has, too.

SageMaker API reference, ClusterInstanceGroupSpecification, InstanceType.
"""

from __future__ import annotations

# fmt: off
HYPERPOD_TYPES = frozenset({
    "ml.c6i.16xlarge", "ml.c6i.24xlarge", "ml.c6i.32xlarge", "ml.c6i.xlarge",
    "ml.g5.48xlarge", "ml.g6.48xlarge", "ml.g6e.48xlarge",
    "ml.m5.large", "ml.m7i.24xlarge", "ml.m7i.48xlarge",
    "ml.p4d.24xlarge", "ml.p4de.24xlarge", "ml.p5.48xlarge", "ml.p5.4xlarge", "ml.p5e.48xlarge",
    "ml.p5en.48xlarge", "ml.p6-b200.48xlarge",
    "ml.trn1.32xlarge", "ml.trn1n.32xlarge", "ml.trn2.48xlarge",
})
# fmt: on
