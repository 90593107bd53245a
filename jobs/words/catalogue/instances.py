"""Reads the instance catalogue, which says what the hardware is and makes no choice.

instances.csv has the types that clusters and measurements are about, every_type.csv all others that AWS
names. Each row has the source of its facts and of its price, which is of one region and one day. SageMaker's
ml.p4d.24xlarge is the hardware of p4d.24xlarge at its own price, from sagemaker.csv.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from slipway.jobs.words.catalogue import every_type
from slipway.jobs.words.errors import SlipwayError, did_you_mean

_NOT_COLLECTED = "SageMaker's price of it is not collected yet"
ON_DEMAND, SPOT, CAPACITY_BLOCK = "on-demand", "spot", "capacity-block"  # the ways to buy nodes
SAGEMAKER = "ml."  # SageMaker's prefix of a type's name


@dataclass(frozen=True, slots=True, kw_only=True)
class Accelerator:
    name: str
    count: int
    memory_gib: float
    peak_tflops: float | None  # of one device: dense, 16 bit; None: nobody has published it
    link_gb_s: float  # of one device, to the others of its node


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """Holds a price. When two prices have different dates, say so."""

    usd_per_hour: float
    region: str
    date: str
    source: str
    term: str = ON_DEMAND


_REGISTERED_SHARE = 0.96
_FIXED_MIB = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceType:
    name: str
    vcpus: int
    cores: int | None  # None: nobody has published it
    threads_per_core: tuple[int, ...]  # accepted by its CPU options; () without any, as bare metal
    memory_gib: float
    # The ECS agent registers less than the nominal memory; a job that asks for more is never placed. None:
    # nobody has published it.
    registered_memory_mib: int | None
    architecture: str
    accelerator: Accelerator | None
    peak_tflops: float | None  # of the whole node, if it has no accelerator
    peak_note: str  # source of the peak, and its reliability
    link_note: str
    local_storage_gb: int  # of the host's disks, which are lost with the instance; 0: none
    network_gbps: float
    baseline_gbps: (
        float  # what AWS promises for as long as one likes; often less than what it allows for a while
    )
    network_cards: int
    efa_interfaces: int  # the most that can be attached; 0: the type has no EFA
    price: Price | None
    unpriced_reason: str  # the reason if there is no price; empty if there is one
    regions: tuple[str, ...]  # those that offered it when the row was made; empty: unknown
    source: str
    notes: str

    @property
    def memory_mib(self) -> int:
        return int(self.memory_gib * 1024)

    @property
    def job_memory_mib(self) -> int:
        """Return the most memory that a job may ask for, which is less than what the ECS agent registers.

        Registered: of 8 GiB 7,679 MiB (aws/amazon-ecs-agent#3331: c6i.xlarge), of 32 GiB 31,672
        (ASFHyP3/hyp3#582: r5d.xlarge), of 512 GiB 507,821. One part of the rest is constant, and one grows.
        """
        most = int(self.memory_mib * _REGISTERED_SHARE) - _FIXED_MIB
        return min(most, self.registered_memory_mib or most)

    @property
    def has_efa(self) -> bool:
        return self.efa_interfaces > 0

    @property
    def first_efa_card(self) -> int:
        """Return the index of the first network card that takes EFA; those before it only carry addresses.

        P6-B300 has one: "primary network card (network card index 0) only supports ENA" (AWS in
        aws/aws-parallelcluster#7143). AWS ParallelCluster derives it from the same two numbers.
        """
        return self.network_cards - self.efa_interfaces if self.has_efa else 0


@lru_cache(maxsize=1)
def instance_types() -> tuple[InstanceType, ...]:
    """Return the types that clusters and measurements are about; `every_instance_type` returns all."""
    return tuple(map(_decode, _curated_rows().values()))


@lru_cache(maxsize=1)
def training_types() -> tuple[InstanceType, ...]:
    """Return the types that SageMaker's training jobs may use, with its names and prices."""
    hardware = {f"{SAGEMAKER}{known.name}": known for known in instance_types()}
    return tuple(_of_sagemaker(hardware[row["name"]], row) for row in _rows("sagemaker.csv"))


def _rows(name: str) -> Iterator[dict[str, str]]:
    text = Path(__file__).with_name(name).read_text(encoding="utf-8")
    return iter(csv.DictReader(text.splitlines()))


def instance_type(name: str) -> InstanceType:
    if known := find_instance_type(name):
        return known
    otherwise = "slipway instance list --all lists the types that AWS names"
    raise SlipwayError(
        f"unknown instance type '{name}'",
        hint=did_you_mean(name, names_like(name), otherwise=otherwise, most=3),
    )


def find_instance_type(name: str) -> InstanceType | None:
    """Return the type of this name, of EC2 or SageMaker; None if AWS names no such type."""
    known = training_types() if name.startswith(SAGEMAKER) else instance_types()
    return next((each for each in known if each.name == name), None) or _find_among_all(name)


def vcpus_of(name: str) -> int:
    """Return a type's vCPUs; 0 for a type that is newer than this version of Slipway."""
    known = find_instance_type(name)
    return known.vcpus if known else 0


def names_like(name: str) -> list[str]:
    """Return the names of all types: SageMaker's if the name begins with its prefix, else EC2's."""
    if not name.startswith(SAGEMAKER):
        return [*(known.name for known in instance_types()), *every_type.names()]
    others = (f"{SAGEMAKER}{known}" for known in every_type.training_names())
    return [*(known.name for known in training_types()), *others]


@lru_cache(maxsize=1)
def every_instance_type() -> tuple[InstanceType, ...]:
    """Return every type that AWS names, first those of `instance_types`."""
    return (*instance_types(), *map(_decode, every_type.rows()))


@lru_cache(maxsize=64)
def _find_among_all(name: str) -> InstanceType | None:
    row = every_type.find_row(name.removeprefix(SAGEMAKER))
    if row is None:
        return None
    if not name.startswith(SAGEMAKER):
        return _decode(row)
    priceless = {"name": name, "usd_per_hour": "", "price_source": _NOT_COLLECTED}
    return _of_sagemaker(_decode(row), priceless) if row["sagemaker"] else None


def _of_sagemaker(hardware: InstanceType, row: dict[str, str]) -> InstanceType:
    price = _price(row)
    return replace(
        hardware,
        name=row["name"],
        registered_memory_mib=None,
        price=price,
        unpriced_reason="" if price else row["price_source"],
    )


def _decode(row: dict[str, str]) -> InstanceType:
    peak = float(row["peak_tflops"]) if row["peak_tflops"] else None
    accelerator = None
    if int(row["accelerators"]):
        accelerator = Accelerator(
            name=row["accelerator"],
            count=int(row["accelerators"]),
            memory_gib=float(row["accelerator_memory_gib"]),
            peak_tflops=peak,
            link_gb_s=float(row["accelerator_link_gb_s"] or 0),
        )
        own_peak, note = None, row["peak_note"]
    else:
        own_peak, note = _processor_peak(row)
    memory, network = float(row["memory_gib"]), float(row["network_gbps"])
    return InstanceType(
        name=row["name"],
        vcpus=int(row["vcpus"]),
        cores=int(row["cores"]) if row["cores"] else None,
        threads_per_core=tuple(map(int, row["threads_per_core"].split())),
        memory_gib=int(memory) if memory.is_integer() else memory,
        registered_memory_mib=int(row["registered_memory_mib"]) if row["registered_memory_mib"] else None,
        architecture=row["architecture"],
        accelerator=accelerator,
        peak_tflops=own_peak,
        peak_note=note,
        link_note=row["link_note"],
        local_storage_gb=int(row["local_storage_gb"]),
        network_gbps=network,
        baseline_gbps=float(row["baseline_gbps"] or network),
        network_cards=int(row["network_cards"]),
        efa_interfaces=int(row["efa_interfaces"]),
        price=_price(row),
        unpriced_reason="" if row["usd_per_hour"] else row["price_source"],
        regions=tuple(row["regions"].split()),
        source=row["facts_source"],
        notes=row["notes"],
    )


def _processor_peak(row: Mapping[str, str]) -> tuple[float | None, str]:
    """Return the row's own peak, or its cores' share of the peak of a type with the same processors."""
    if row["peak_tflops"]:
        return float(row["peak_tflops"]), row["peak_note"]
    known = _processors().get(row["name"].partition(".")[0])
    if known is None or not row["cores"]:
        return None, row["peak_note"] or "nobody measured its processors"
    like = _curated_rows()[known["like"]]
    peak = float(like["peak_tflops"]) / int(like["cores"]) * int(row["cores"])
    return round(peak, 4), f"its cores' share of {known['like']}'s: {known['note']}, {like['peak_note']}"


@lru_cache(maxsize=1)
def _processors() -> dict[str, dict[str, str]]:
    return {row["family"]: row for row in _rows("processors.csv")}


@lru_cache(maxsize=1)
def _curated_rows() -> dict[str, dict[str, str]]:
    return {row["name"]: row for row in _rows("instances.csv")}


def _price(row: dict[str, str]) -> Price | None:
    if not row["usd_per_hour"]:
        return None
    return Price(
        usd_per_hour=float(row["usd_per_hour"]),
        region=row["price_region"],
        date=row["price_date"],
        source=row["price_source"],
    )
