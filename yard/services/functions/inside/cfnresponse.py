"""The module cfnresponse, which Lambda adds to inline code: it sends a custom resource's response.

Its interface and its output are AWS's: "cfn-response module", AWS CloudFormation user guide.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import urllib3

SUCCESS = "SUCCESS"
FAILED = "FAILED"

http = urllib3.PoolManager()


def send(
    event: Mapping[str, Any],
    context: Any,
    responseStatus: str,  # noqa: N803 - the names that handlers give
    responseData: Mapping[str, Any] | None,  # noqa: N803
    physicalResourceId: str | None = None,  # noqa: N803
    noEcho: bool = False,  # noqa: N803
    reason: str | None = None,
) -> None:
    """Send the response; print errors, but do not raise them."""
    where = f"See the details in CloudWatch Log Stream: {context.log_stream_name}"
    body = json.dumps(
        {
            "Status": responseStatus,
            "Reason": reason or where,
            "PhysicalResourceId": physicalResourceId or context.log_stream_name,
            "StackId": event["StackId"],
            "RequestId": event["RequestId"],
            "LogicalResourceId": event["LogicalResourceId"],
            "NoEcho": noEcho,
            "Data": responseData,
        }
    )
    print(f"Response body:\n{body}")
    headers = {"content-type": "", "content-length": str(len(body))}
    try:
        response = http.request("PUT", event["ResponseURL"], headers=headers, body=body)
        print(f"Status code: {response.status}")
    except Exception as error:  # noqa: BLE001 - as in AWS's module, the handler continues
        print(f"send(..) failed executing http.request(..): {error}")
