"""The generated part of the catalogue agrees with its source, moto's snapshot of EC2."""

from __future__ import annotations

from scripts.every_instance_type import described, generated, snapshot_regions
from slipway.jobs.words.catalogue.every_type import COLUMNS, head, names, regions_as_number, rows
from slipway.jobs.words.catalogue.instances import instance_types

PRICES = """
// generated at 2026-07-20T13:44:30Z for us-east-1
"g5.xlarge": 1.006000, "c6i.8xlarge": 1.360000,
"""
PAGE = """
### `g4ad.xlarge`
 |karpenter.k8s.aws/instance-cpu|4|
 |karpenter.k8s.aws/instance-gpu-count|1|
 |karpenter.k8s.aws/instance-gpu-name|radeon-pro-v520|
 |karpenter.k8s.aws/instance-memory|16384|
 |karpenter.k8s.aws/instance-network-bandwidth|2000|
 |kubernetes.io/arch|amd64|
"""


def test_every_type_that_aws_describes_is_in_the_catalogue() -> None:
    curated = {known.name for known in instance_types()}
    assert set(described(snapshot_regions())) <= curated | set(names())


def test_the_generated_facts_are_those_of_the_source() -> None:
    """If this fails, moto has another snapshot: run scripts/refresh_instances --karpenter again."""
    written = {row["name"]: row for row in rows()}
    regions = snapshot_regions()
    assert head()["regions"].split() == list(regions)
    compared = set(COLUMNS) - {"usd_per_hour", "regions"}
    for name, row in described(regions).items():
        if name in written:
            assert {key: row[key] for key in compared} == {key: written[name][key] for key in compared}
            assert row["regions"] == regions_as_number(written[name]["regions"].split(), list(regions))


def test_a_generated_file_says_where_and_of_which_day_facts_and_prices_are() -> None:
    lines = generated(PRICES, PAGE, "1d927085 (2026-08-21)", {"c6i.8xlarge"}).splitlines()
    assert "# price_region: us-east-1" in lines
    assert "# price_date: 2026-07-20" in lines
    assert any("1d927085 (2026-08-21)" in line and line.startswith("# price_source: ") for line in lines)
    found = {line.partition(",")[0]: dict(zip(COLUMNS, line.split(","), strict=True)) for line in lines[5:]}
    assert found["g5.xlarge"]["usd_per_hour"] == "1.006"
    assert found["g4ad.xlarge"]["device"] == "radeon-pro-v520"
    assert found["g5.12xlarge"]["usd_per_hour"] == "", "a price that nobody wrote down is no price"
    assert "c6i.8xlarge" not in found, "instances.csv has it"
