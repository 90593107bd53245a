"""Judge what an AWS service does in its own name: only the policy of the resource decides.

`judge_service` is the door for whoever delivers in a service's name; alarms and EventBridge rules are such.
"""

from __future__ import annotations

from collections.abc import Mapping

from slipway.yard.endpoint import ACCOUNT
from slipway.yard.permissions import deployed
from slipway.yard.permissions.callers import Caller
from slipway.yard.permissions.evaluation import Access, AppliedPolicies, Judgement, judge


def judge_service(
    service: str, action: str, resource: str, keys: Mapping[str, str] | None = None
) -> Judgement:
    """Judge one action of a service principal, such as events.amazonaws.com, on a resource of the yard.

    `keys` are those that this service sends to that one, such as aws:SourceArn and aws:SourceAccount. Not all
    do: EventBridge sends KMS no aws:SourceAccount.
    """
    sent = {name.lower(): (value,) for name, value in (keys or {}).items()}
    access = Access(
        caller=Caller(account=ACCOUNT, service=service),
        action=action,
        resource=resource,
        keys={"aws:principalisawsservice": ("true",), "aws:securetransport": ("true",), **sent},
    )
    return judge(access, AppliedPolicies(resource=deployed.of_resource(resource)))
