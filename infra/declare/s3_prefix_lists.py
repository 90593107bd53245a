"""The prefix list of S3 in each region, with which a security group lets nodes reach S3 and nothing else.

AWS manages these lists; CloudFormation has no attribute for them, and synthesis asks nobody. For another
region, add what `aws ec2 describe-managed-prefix-lists` prints for com.amazonaws.<region>.s3.
"""

from __future__ import annotations

from collections.abc import Mapping

from slipway.jobs.words.errors import SlipwayError

# From templates and configurations of several public repositories, which agree; read 2026-11-21.
S3_PREFIX_LISTS: Mapping[str, str] = {
    "ap-northeast-1": "pl-61a54008",
    "ap-northeast-2": "pl-78a54011",
    "ap-south-1": "pl-78a54011",
    "ap-southeast-1": "pl-6fa54006",
    "ap-southeast-2": "pl-6ca54005",
    "ca-central-1": "pl-7da54014",
    "eu-central-1": "pl-6ea54007",
    "eu-north-1": "pl-c3aa4faa",
    "eu-west-1": "pl-6da54004",
    "eu-west-2": "pl-7ca54015",
    "sa-east-1": "pl-6aa54003",
    "us-east-1": "pl-63a5400a",
    "us-east-2": "pl-7ba54012",
    "us-west-1": "pl-6ba54002",
    "us-west-2": "pl-68a54001",
}


def s3_prefix_list(region: str) -> str:
    known = S3_PREFIX_LISTS.get(region)
    if known is None:
        raise SlipwayError(
            f"egress is endpoints in region {region}, whose S3 prefix list is not known; known are "
            f"{', '.join(S3_PREFIX_LISTS)}",
            hint="add it to infra/declare/s3_prefix_lists.py (`aws ec2 describe-managed-prefix-lists`), "
            "or use Egress.NAT",
        )
    return known
