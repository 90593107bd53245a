"""The regions of AWS. A new one is a line of REGIONS; a test compares them with those that botocore knows."""

from __future__ import annotations

from slipway.jobs.words.errors import SlipwayError
from slipway.jobs.words.suggestions import did_you_mean

_SHOWN = 60
# fmt: off
REGIONS = (
    "af-south-1",
    "ap-east-1", "ap-east-2",
    "ap-northeast-1", "ap-northeast-2", "ap-northeast-3",
    "ap-south-1", "ap-south-2",
    "ap-southeast-1", "ap-southeast-2", "ap-southeast-3", "ap-southeast-4", "ap-southeast-5",
    "ap-southeast-6", "ap-southeast-7",
    "ca-central-1", "ca-west-1",
    "cn-north-1", "cn-northwest-1",
    "eu-central-1", "eu-central-2", "eu-north-1", "eu-south-1", "eu-south-2",
    "eu-west-1", "eu-west-2", "eu-west-3",
    "eu-isoe-west-1", "eusc-de-east-1",
    "il-central-1",
    "me-central-1", "me-south-1",
    "mx-central-1",
    "sa-east-1",
    "us-east-1", "us-east-2", "us-west-1", "us-west-2",
    "us-gov-east-1", "us-gov-west-1",
    "us-iso-east-1", "us-iso-west-1", "us-isob-east-1", "us-isob-west-1", "us-isof-east-1", "us-isof-south-1",
)
# fmt: on


class UnknownRegion(SlipwayError):
    exit_code = 2


def checked_region(region: str) -> str:
    """Return the region as it was given; refuse one that AWS does not have, in any other spelling too."""
    if region not in REGIONS:
        raise UnknownRegion(f"AWS has no region {region[:_SHOWN]!r}", hint=nearest_region(region))
    return region


def nearest_region(region: str) -> str:
    """Suggest the region that was meant, or say what a region looks like."""
    return did_you_mean(region.strip().lower(), REGIONS, otherwise="give one such as us-east-1")
