"""Compare the instance catalogue with DescribeInstanceTypes. To compare another fact, add a line to FACTS."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from scripts.every_instance_type import devices_of, network_gbps
from slipway.jobs.cli.failures import end
from slipway.jobs.output import Column, json_option, print_table, say
from slipway.jobs.words.catalogue.instances import InstanceType, instance_types
from slipway.jobs.words.errors import SlipwayError

CATALOGUE = Path(__file__).resolve().parent.parent / "jobs" / "words" / "catalogue" / "instances.csv"

COLUMNS = (
    Column(name="name", title="type"),
    Column(name="fact"),
    Column(name="catalogue"),
    Column(name="aws", title="AWS says"),
)


class CannotCompare(SlipwayError):
    """Reports that the comparison failed, with exit code 2, as diff(1) does."""

    exit_code = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Holds one fact of one type on which the catalogue and AWS differ."""

    name: str
    fact: str  # a column of instances.csv
    catalogue: str
    aws: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Hold what AWS said in one region."""

    region: str
    described: Mapping[str, Mapping[str, Any]]  # by name of the type
    offered: frozenset[str]


# A column of instances.csv, its value in the catalogue, and AWS's value (None: AWS does not give it).
FACTS: Mapping[str, tuple[Callable[[InstanceType], object], Callable[[Mapping[str, Any]], object]]] = {
    "vcpus": (lambda ours: ours.vcpus, lambda aws: aws["VCpuInfo"]["DefaultVCpus"]),
    "cores": (lambda ours: ours.cores, lambda aws: aws["VCpuInfo"].get("DefaultCores")),
    "memory_gib": (lambda ours: ours.memory_gib, lambda aws: aws["MemoryInfo"]["SizeInMiB"] / 1024),
    "architecture": (
        lambda ours: ours.architecture,
        lambda aws: next(iter(aws["ProcessorInfo"]["SupportedArchitectures"]), None),
    ),
    "accelerators": (
        lambda ours: ours.accelerator.count if ours.accelerator else 0,
        lambda aws: sum(device["Count"] for device in devices_of(aws)) or None,
    ),
    "local_storage_gb": (
        lambda ours: ours.local_storage_gb,
        lambda aws: aws.get("InstanceStorageInfo", {}).get("TotalSizeInGB", 0),
    ),
    "network_gbps": (lambda ours: ours.network_gbps, network_gbps),
    "network_cards": (lambda ours: ours.network_cards, lambda aws: aws["NetworkInfo"]["MaximumNetworkCards"]),
    "efa_interfaces": (
        lambda ours: ours.efa_interfaces,
        lambda aws: aws["NetworkInfo"].get("EfaInfo", {}).get("MaximumEfaInterfaces", 0),
    ),
}


@click.command()
@click.option(
    "--region", "regions", multiple=True, default=["us-east-1"], help="Ask this region too; repeatable."
)
@click.option("--write", is_flag=True, help="Put what AWS says into the catalogue.")
@click.option(
    "--karpenter",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Ask nobody: write every_type.csv from moto's snapshot and this clone of Karpenter's AWS provider.",
)
@json_option
def command(regions: tuple[str, ...], write: bool, karpenter: Path | None, as_json: bool) -> None:
    """Compare the instance catalogue with what AWS describes and offers today, field by field.

    Ends with 0 when they agree, 1 when they differ, 2 when AWS cannot be asked.
    """
    if karpenter is not None:
        from scripts import every_instance_type

        count = every_instance_type.write(karpenter, [known.name for known in instance_types()])
        say(f"{count} types written to {every_instance_type.EVERY_TYPE.name}")
        return
    answers = [ask_region(region, [known.name for known in instance_types()]) for region in regions]
    found = differences(instance_types(), answers)
    if not found:
        say(f"the catalogue agrees with AWS in {', '.join(regions)}")
        return
    print_table("", COLUMNS, [asdict(difference) for difference in found], as_json=as_json)
    if not write:
        raise click.exceptions.Exit(1)
    today = datetime.now(UTC).date().isoformat()
    CATALOGUE.write_text(amended(CATALOGUE.read_text(encoding="utf-8"), found, today), encoding="utf-8")
    say(f"written to {CATALOGUE.name}; a type that is no longer described keeps its row")


def ask_region(region: str, names: Sequence[str]) -> Answer:
    from slipway.jobs.cloud.aws import ask_all, reader

    client = reader("ec2", region)
    # A filter ignores names that AWS does not know.
    these = [{"Name": "instance-type", "Values": list(names)}]
    described = ask_all(client, "DescribeInstanceTypes", "InstanceTypes", Filters=these)
    offered = ask_all(
        client, "DescribeInstanceTypeOfferings", "InstanceTypeOfferings", LocationType="region", Filters=these
    )
    for answer in (described, offered):
        if not isinstance(answer, list):
            raise CannotCompare(f"{answer.action} in {region} got no answer: {answer.code}: {answer.message}")
    return Answer(
        region=region,
        described={kind["InstanceType"]: kind for kind in described},
        offered=frozenset(offer["InstanceType"] for offer in offered),
    )


def differences(types: Iterable[InstanceType], answers: Sequence[Answer]) -> list[Difference]:
    found: list[Difference] = []
    for ours in types:
        described = [answer.described[ours.name] for answer in answers if ours.name in answer.described]
        if described:
            found += [
                Difference(name=ours.name, fact=fact, catalogue=_spelled(known), aws=_spelled(said))
                for fact, (of_ours, of_aws) in FACTS.items()
                if (said := of_aws(described[0])) is not None and (known := of_ours(ours)) != said
            ]
        else:
            found += _missing(ours, answers)
        found += _region_difference(ours, answers)
    return found


def amended(catalogue: str, found: Iterable[Difference], today: str) -> str:
    """Return the catalogue's text with AWS's values, and their source."""
    reader = csv.DictReader(io.StringIO(catalogue))
    rows = {row["name"]: row for row in reader}
    for difference in found:
        row = rows[difference.name]
        if difference.fact in row:
            row[difference.fact] = difference.aws
            is_offer = difference.fact == "regions"
            operation = "DescribeInstanceTypeOfferings" if is_offer else "DescribeInstanceTypes"
            row["facts_source"] += f"; {difference.fact} from ec2:{operation}, {today}"
    text = io.StringIO()
    writer = csv.DictWriter(text, reader.fieldnames or (), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows.values())
    return text.getvalue()


def _missing(ours: InstanceType, answers: Sequence[Answer]) -> list[Difference]:
    asked = [answer.region for answer in answers]
    expected = [region for region in asked if region in ours.regions]
    if expected:
        catalogue, said = ", ".join(expected), "no longer described"
    elif not ours.regions:
        catalogue, said = "regions unknown", f"not in {', '.join(asked)}"
    else:
        return []
    return [Difference(name=ours.name, fact="described", catalogue=catalogue, aws=said)]


def _region_difference(ours: InstanceType, answers: Sequence[Answer]) -> list[Difference]:
    if not ours.regions:  # unknown; the answers of a few regions must not count as all of them
        return []
    asked = {answer.region for answer in answers}
    offered = {answer.region for answer in answers if ours.name in answer.offered}
    regions = (set(ours.regions) - asked) | offered
    if regions == set(ours.regions):
        return []
    return [
        Difference(
            name=ours.name,
            fact="regions",
            catalogue=" ".join(ours.regions),
            aws=" ".join(sorted(regions)),
        )
    ]


def _spelled(fact: object) -> str:
    return str(int(fact)) if isinstance(fact, float) and fact.is_integer() else str(fact)


def main() -> None:
    try:
        sys.exit(command(standalone_mode=False, prog_name="scripts/refresh_instances"))
    except SystemExit:
        raise
    except BaseException as error:  # noqa: BLE001 - end() sorts them
        sys.exit(end(error, debug=False))


if __name__ == "__main__":
    main()
