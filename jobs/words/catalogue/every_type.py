"""Reads the types that AWS names and instances.csv lacks from every_type.csv (scripts/refresh_instances
writes it).

The file is read only when somebody asks for such a type, or for all. Its lines hold what AWS describes,
devices.csv what accelerators can do; together they make a row with the columns of instances.csv.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path

COLUMNS = (
    "name",
    "vcpus",
    "cores",
    "memory_gib",
    "architecture",
    "device",  # AWS's name
    "devices",  # below 1: a part of a device
    "local_storage_gb",
    "network_gbps",
    "baseline_gbps",  # what AWS promises for unlimited time; it may allow more for a while
    "network_cards",
    "efa_interfaces",
    "sagemaker",  # 1: SageMaker's training jobs take the type, too
    "usd_per_hour",
    "regions",  # a hexadecimal number whose bit i stands for region i of the file's head
)
Row = dict[str, str]


def find_row(name: str) -> Row | None:
    """Return the row of a type, in the columns of instances.csv; None if AWS names no such type."""
    start = f"\n{name},"
    is_name = name.isprintable() and "." in name and "," not in name
    at = _text().find(start) if is_name else -1
    return None if at < 0 else _expanded(_text()[at + 1 :].partition("\n")[0])


def rows() -> Iterator[Row]:
    return (_expanded(line) for line in _lines())


def names() -> list[str]:
    return [line.partition(",")[0] for line in _lines()]


def prices() -> Iterator[tuple[str, float]]:
    """Return the hourly price of each type that has one."""
    at = COLUMNS.index("usd_per_hour")
    found = ((line.partition(",")[0], line.split(",")[at]) for line in _lines())
    return ((name, float(usd)) for name, usd in found if usd)


def training_names() -> list[str]:
    """Return the names of the types that training jobs of SageMaker take."""
    at = COLUMNS.index("sagemaker")
    return [line.partition(",")[0] for line in _lines() if line.split(",")[at]]


def regions_as_number(names_of_regions: Sequence[str], all_regions: Sequence[str]) -> str:
    return f"{sum(1 << all_regions.index(name) for name in names_of_regions):x}"


@lru_cache(maxsize=1)
def head() -> Mapping[str, str]:
    """Return the lines above the columns: sources and dates, and the regions in order."""
    lines = (line[2:].partition(": ") for line in _text().splitlines() if line.startswith("# "))
    return {name: value for name, _, value in lines}


@lru_cache(maxsize=1)
def _devices() -> Mapping[str, Row]:
    return {row["aws_name"]: row for row in csv.DictReader(_packaged("devices.csv").splitlines())}


def _expanded(line: str) -> Row:
    own = dict(zip(COLUMNS, line.split(","), strict=True))
    known, bits = head(), int(own["regions"] or "0", 16)
    regions = [name for i, name in enumerate(known["regions"].split()) if bits >> i & 1]
    if own["usd_per_hour"]:
        price = (known["price_region"], known["price_date"], known["price_source"])
    else:
        price = ("", "", f"not in the {known['price_region']} on-demand list of {known['price_date']}")
    return {
        **own,
        **_device_columns(own),
        **dict(zip(("price_region", "price_date", "price_source"), price, strict=True)),
        "threads_per_core": "",
        "registered_memory_mib": "",
        "regions": " ".join(regions),
        "facts_source": known["facts_source"],
        "notes": "",
    }


def _device_columns(own: Row) -> Row:
    if not own["device"]:
        return {"accelerators": "0", "peak_tflops": "", "peak_note": "", "link_note": ""}
    known, count = _devices()[own["device"]], float(own["devices"])
    share, part = min(count, 1.0), f"; {own['devices']} of a device" if count < 1 else ""
    memory, peak = known["memory_gib"], known["peak_tflops"]
    alone = count <= 1
    return {
        "accelerator": known["name"],
        "accelerators": str(max(int(count), 1)),
        "accelerator_memory_gib": f"{float(memory or 0) * share:g}",
        "peak_tflops": f"{float(peak) * share:g}" if peak else "",
        "peak_note": known["peak_note"] + part,
        "accelerator_link_gb_s": "0" if alone else known["link_gb_s"],
        "link_note": "single device" if alone else known["link_note"],
    }


def _lines() -> Iterator[str]:
    lines = iter(_text().splitlines())
    return (line for line in lines if not line.startswith(("# ", "name,")))


@lru_cache(maxsize=1)
def _text() -> str:
    return _packaged("every_type.csv")


def _packaged(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8")
