"""Write jobs/words/catalogue/every_type.csv: facts from moto's snapshot of EC2, prices from Karpenter's list.

To add a column, add a line to `_row` and one to every_type.COLUMNS.
"""

from __future__ import annotations

import gzip
import json
import re
import subprocess
from collections.abc import Iterable, Mapping
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any

from slipway.jobs.words.catalogue.every_type import COLUMNS, regions_as_number

EVERY_TYPE = Path(__file__).resolve().parent.parent / "jobs" / "words" / "catalogue" / "every_type.csv"
_PRICES = "pkg/providers/pricing/zz_generated.pricing_aws.go"
_PAGE = "website/content/en/preview/reference/instance-types.md"
_ARCHITECTURES = {"amd64": "x86_64", "arm64": "arm64"}
_DEVICES_BY_KARPENTER = "g4ad"  # not in moto's snapshot; Karpenter's page names its GPUs, not their cores
# AWS's answer lacks its accelerators; they are from aws.amazon.com/ec2/instance-types/trn2.
_UNSAID = {"trn2u.48xlarge": ("Trainium2", "16")}
# The groups of accelerators in DescribeInstanceTypes, one a line.
_GROUPS = (
    ("GpuInfo", "Gpus"),
    ("NeuronInfo", "NeuronDevices"),
    ("InferenceAcceleratorInfo", "Accelerators"),
)

Types = Mapping[str, Mapping[str, Any]]


def write(karpenter: Path, curated: Iterable[str]) -> int:
    """Write the file and return how many types it has."""
    commit = _git(karpenter, "log", "-1", "--format=%h (%cs)", "--abbrev=8").strip()
    text = generated(_shown(karpenter, _PRICES), _shown(karpenter, _PAGE), commit, set(curated))
    EVERY_TYPE.write_text(text, encoding="utf-8")
    return sum(not line.startswith(("# ", "name,")) for line in text.splitlines())


def generated(prices: str, page: str, commit: str, curated: set[str]) -> str:
    usd = {
        name: f"{float(price):.6f}".rstrip("0").rstrip(".")
        for name, price in re.findall(r'"([a-z0-9.-]+)": (\d+\.\d+)', prices)
    }
    day, region = re.search(r"generated at (\S+)T\S+ for (\S+)", prices).groups()  # type: ignore[union-attr]  # or fail
    regions = snapshot_regions()
    facts = {**_paged(page), **described(regions)}
    lines = [
        ",".join({**row, "usd_per_hour": usd.get(name, "")}[column] for column in COLUMNS)
        for name, row in sorted(facts.items())
        if name not in curated
    ]
    page_of = f"aws/karpenter-provider-aws@{commit}"
    facts_of = f"DescribeInstanceTypes and DescribeInstanceTypeOfferings as moto {version('moto')} keeps them"
    top = (
        f"# facts_source: {facts_of}; g4ad: {page_of}:{_PAGE}",
        f"# price_source: {page_of}:{_PRICES} (generated {day}, {region} on-demand)",
        f"# price_region: {region}",
        f"# price_date: {day}",
        f"# regions: {' '.join(regions)}",
        ",".join(COLUMNS),
    )
    return "\n".join((*top, *lines, ""))


def described(regions: Mapping[str, set[str]]) -> dict[str, dict[str, str]]:
    """Return a row for each type of moto's snapshot, without its price."""
    from botocore.session import get_session

    packed = files("moto").joinpath("ec2/resources", "instance_types.json.gz").read_bytes()
    types: Types = json.loads(gzip.decompress(packed))
    taken = set(get_session().get_service_model("sagemaker").shape_for("TrainingInstanceType").enum)
    return {name: _row(kind, regions, taken) for name, kind in types.items()}


def snapshot_regions() -> dict[str, set[str]]:
    """Return the types that each region offers, in the order of the regions' names."""
    folder = files("moto").joinpath("ec2/resources/instance_type_offerings/region")
    found = {
        each.name.partition(".")[0]: json.loads(gzip.decompress(each.read_bytes()))
        for each in folder.iterdir()
    }
    return {region: {offer["InstanceType"] for offer in found[region]} for region in sorted(found)}


def _row(kind: Mapping[str, Any], regions: Mapping[str, set[str]], taken: set[str]) -> dict[str, str]:
    name, network = kind["InstanceType"], kind["NetworkInfo"]
    gbps, cards = network_gbps(kind), network["NetworkCards"]
    card = cards[0]
    is_less = len(cards) == 1 and card["BaselineBandwidthInGbps"] < card["PeakBandwidthInGbps"]
    architecture = kind["ProcessorInfo"]["SupportedArchitectures"][-1].removesuffix("_mac")
    device, devices = _device(kind)
    return {
        "name": name,
        "vcpus": str(kind["VCpuInfo"]["DefaultVCpus"]),
        "cores": str(kind["VCpuInfo"]["DefaultCores"]),
        "memory_gib": f"{kind['MemoryInfo']['SizeInMiB'] / 1024:g}",
        "architecture": architecture,
        "device": device,
        "devices": devices,
        "local_storage_gb": str(kind.get("InstanceStorageInfo", {}).get("TotalSizeInGB", 0)),
        "network_gbps": f"{gbps or card['PeakBandwidthInGbps']:g}",
        "baseline_gbps": f"{card['BaselineBandwidthInGbps']:g}" if is_less else "",
        "network_cards": str(network["MaximumNetworkCards"]),
        "efa_interfaces": str(network.get("EfaInfo", {}).get("MaximumEfaInterfaces", 0)),
        "sagemaker": "1" if f"ml.{name}" in taken else "",
        "regions": regions_as_number([r for r, offered in regions.items() if name in offered], list(regions)),
    }


def _device(kind: Mapping[str, Any]) -> tuple[str, str]:
    """Return AWS's name of the type's devices, and their number: a fraction if a device is shared."""
    found = devices_of(kind)
    if not found:
        return _UNSAID.get(kind["InstanceType"], ("", ""))
    part = found[0].get("GpuPartitionSize", 1.0)
    return found[0]["Name"], f"{part:g}" if part < 1 else str(found[0]["Count"])


def _paged(page: str) -> dict[str, dict[str, str]]:
    """Return a row for each type that only Karpenter's page describes."""
    found = {}
    for part in page.split("\n### `")[1:]:
        name = part.partition("`")[0]
        if not name.startswith(f"{_DEVICES_BY_KARPENTER}."):
            continue
        says = dict(re.findall(r"\|(?:karpenter\.k8s\.aws/instance-|kubernetes\.io/)([a-z-]+)\|(.+)\|", part))
        found[name] = {
            **dict.fromkeys(COLUMNS, ""),
            "name": name,
            "vcpus": says["cpu"],
            "memory_gib": f"{int(says['memory']) / 1024:g}",
            "architecture": _ARCHITECTURES[says["arch"]],
            "device": says["gpu-name"],
            "devices": says["gpu-count"],
            "local_storage_gb": says.get("local-nvme", "0"),
            "network_gbps": f"{int(says['network-bandwidth']) / 1000:g}",
            "network_cards": "1",
            "efa_interfaces": "0",
        }
    return found


def _shown(repository: Path, path: str) -> str:
    return _git(repository, "show", f"HEAD:{path}")


def _git(repository: Path, *words: str) -> str:
    done = subprocess.run(["git", "-C", repository, *words], capture_output=True, text=True, check=True)
    return done.stdout


def devices_of(kind: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the accelerators of a type, each once: AWS lists those of inf1 and inf2 in two groups."""
    for info, devices in _GROUPS:
        if found := kind.get(info, {}).get(devices, []):
            return list(found)
    return []


def network_gbps(kind: Mapping[str, Any]) -> float | None:
    """Read the peak from AWS's text: the cards' peaks may add up to more, as each can carry it all (g6e)."""
    spoken = re.fullmatch(
        r"(?:(\d+)x )?(?:Up to )?([\d.]+) Gigabit", kind["NetworkInfo"]["NetworkPerformance"]
    )
    return int(spoken[1] or 1) * float(spoken[2]) if spoken else None
