"""Which types take a key for their volume: the others bring disks that their hardware encrypts."""

import pytest

from slipway.jobs.core.sagemaker.local_storage import has_local_storage


@pytest.mark.parametrize(
    "name",
    ["ml.p4d.24xlarge", "ml.p5.48xlarge", "ml.g5.xlarge", "ml.trn1.32xlarge", "ml.m5d.large", "p4d.24xlarge"],
)
def test_a_type_with_disks_of_its_own_is_known(name: str) -> None:
    assert has_local_storage(name)


@pytest.mark.parametrize(
    "name", ["ml.m5.large", "ml.c5.18xlarge", "ml.p3.16xlarge", "ml.c5n.18xlarge", "ml.r5.large"]
)
def test_a_type_without_disks_gets_a_volume(name: str) -> None:
    assert not has_local_storage(name)
