"""What the services contribute to the gateway, which imports none of them.

To refuse what a service's model allows: a row of the table in refusals/rules.py; or, to list all problems of
a call in one error, a function of the call and its line in CONTRACTS. To be called after a service's answers:
a function of the call and its reply, in AFTER_ANSWER.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from slipway.yard.gateway.pipeline import GatewayServices
from slipway.yard.gateway.protocols import Call, Reply
from slipway.yard.gateway.validation import Contract
from slipway.yard.machines.hosts import reconciler
from slipway.yard.services import registry, stand_ins
from slipway.yard.services.batch.api import limits
from slipway.yard.services.cloudwatch import alarms
from slipway.yard.services.ec2 import launches
from slipway.yard.services.refusals import rules

CONTRACTS: Mapping[str, Contract] = {"batch": limits.problems}


def _hosts_may_change(call: Call, _reply: Reply) -> None:
    reconciler.noticed(call.operation)


AFTER_ANSWER: Mapping[str, tuple[Callable[[Call, Reply], None], ...]] = {
    "autoscaling": (_hosts_may_change,),
    "cloudwatch": (alarms.noticed,),
    "ec2": (launches.launched, launches.registered, _hosts_may_change),
}

SERVICES = GatewayServices(
    answerer_of=registry.answerer_of,
    prepare=stand_ins.prepare,
    contracts=CONTRACTS,
    refuse=rules.check,
    after_answer=AFTER_ANSWER,
)
