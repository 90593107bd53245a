"""Templates that AWS publishes in buckets of its own, for others to nest: the yard has a stand-in of each.

To add one: a row of PUBLISHED. A stand-in takes the parameters of AWS's and has its outputs; what it makes is
the yard's own. An object of that name in the yard's S3 goes before it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

# A function of AWS's makes ParallelCluster's clusters; in the yard, custom/parallel_cluster.py keeps them.
_PARALLEL_CLUSTER: Mapping[str, Any] = {
    "Description": "A stand-in of the yard for ParallelCluster's provider of clusters",
    "Parameters": {
        name: {"Type": "String", "Default": ""}
        for name in ("CustomLambdaRole", "AdditionalIamPolicies", "CustomBucket")
    },
    "Resources": {"Handle": {"Type": "AWS::CloudFormation::WaitConditionHandle"}},
    "Outputs": {
        "ServiceToken": {
            "Value": {
                "Fn::Sub": [
                    "arn:${AWS::Partition}:lambda:${AWS::Region}:${AWS::AccountId}:function:pcluster-cfn-${Id}",
                    {"Id": {"Fn::Select": [2, {"Fn::Split": ["/", {"Ref": "AWS::StackId"}]}]}},
                ]
            }
        }
    },
}

# Bucket and key -> the stand-in.
PUBLISHED: Mapping[tuple[str, str], Mapping[str, Any]] = {
    (
        r"[a-z0-9-]+-aws-parallelcluster",
        r"parallelcluster/[0-9.]+/templates/custom_resource/cluster\.yaml",
    ): _PARALLEL_CLUSTER,
}


def text(bucket: str, key: str) -> str | None:
    """Return the stand-in for this object; None where AWS publishes nothing that the yard knows."""
    for (buckets, keys), stand_in in PUBLISHED.items():
        if re.fullmatch(buckets, bucket) and re.fullmatch(keys, key):
            return json.dumps(stand_in)
    return None
