"""What CloudFormation itself makes, behind no service: metadata and wait handles."""

from __future__ import annotations

from collections.abc import Mapping

from slipway.yard.cloudformation.resources.provider import Provider
from slipway.yard.cloudformation.resources.recorded import Recorded
from slipway.yard.cloudformation.resources.scope import ID, text

PROVIDERS: Mapping[str, Provider] = {
    "AWS::CDK::Metadata": Recorded(type="AWS::CDK::Metadata", identity=text("{id}")),
    # Nobody waits on it here: the yard has no WaitCondition.
    "AWS::CloudFormation::WaitConditionHandle": Recorded(
        type="AWS::CloudFormation::WaitConditionHandle",
        identity=text("https://cloudformation-waitcondition-{region}.s3.amazonaws.com/{id}"),
        attributes={"Id": ID},
    ),
}
