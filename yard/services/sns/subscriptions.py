"""Subscriptions by e-mail, which get no messages before their address confirms them.

moto counts every subscription as confirmed, and drops messages to an address.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from slipway.yard.errors import ApiError
from slipway.yard.moto_backends import moto_backend
from slipway.yard.services.sns import delivery, mail

Parameters = Mapping[str, Any]

BY_MAIL = ("email", "email-json")
PENDING = "PendingConfirmation"
CONFIRMATION = "AWS Notification - Subscription Confirmation"
_NO_SUBJECT = "AWS Notification Message"

_tokens: dict[str, str] = {}  # token in a confirmation mail -> ARN of the subscription


def call(operation: str, parameters: Parameters, region: str) -> dict[str, Any]:
    from moto.core.exceptions import ServiceException

    try:
        return _OPERATIONS[operation](parameters, region)
    except ServiceException as error:
        raise ApiError(str(error.code), str(error.message), status=404) from error


def reset() -> None:
    _tokens.clear()
    mail.reset()
    delivery.reset()


def confirm(address: str) -> int:
    """Confirm every subscription of the address, as the links in its mails do; return how many."""
    confirmed = 0
    for token, arn in list(_tokens.items()):
        found = _find(arn)
        if found and found.endpoint == address and not found.confirmed:
            _confirm(found)
            confirmed += 1
            del _tokens[token]
    return confirmed


def _subscribe(parameters: Parameters, region: str) -> dict[str, Any]:
    _deliver_mails()
    backend, protocol = moto_backend("sns", region), parameters["Protocol"]
    known = set(backend.subscriptions)
    found = backend.subscribe(parameters["TopicArn"], parameters.get("Endpoint"), protocol)
    attributes = dict(parameters.get("Attributes") or {})
    # FilterPolicyScope first: SNS checks the policy by it.
    for name in sorted(attributes, key=lambda name: name != "FilterPolicyScope"):
        backend.set_subscription_attributes(found.arn, name, attributes[name])
    if protocol in BY_MAIL:
        if found.arn not in known:
            found.attributes[PENDING] = "true"
            token = secrets.token_hex(32)
            _tokens[token] = found.arn
            mail.send(
                found.endpoint,
                CONFIRMATION,
                f"You have chosen to subscribe to the topic {found.topic_arn}\n"
                "To confirm: aws sns confirm-subscription "
                f"--topic-arn {found.topic_arn} --token {token}\n"
                f"In the yard also: slipway yard mail --confirm {found.endpoint}",
            )
        if not found.confirmed and not parameters.get("ReturnSubscriptionArn"):
            return {"SubscriptionArn": "pending confirmation"}
    return {"SubscriptionArn": found.arn}


def _confirm_by_token(parameters: Parameters, region: str) -> dict[str, Any]:
    moto_backend("sns", region).get_topic(parameters["TopicArn"])
    arn = _tokens.pop(parameters["Token"], "")
    found = _find(arn)
    if found is None or found.topic_arn != parameters["TopicArn"]:
        raise ApiError("InvalidParameter", "Invalid token")
    _confirm(found)
    return {"SubscriptionArn": arn}


def _confirm(subscription: Any) -> None:
    subscription.confirmed = True
    subscription.attributes[PENDING] = "false"


def _list(parameters: Parameters, region: str) -> dict[str, Any]:
    found, token = moto_backend("sns", region).list_subscriptions(next_token=parameters.get("NextToken"))
    return {"Subscriptions": [_shown(each) for each in found], "NextToken": token}


def _list_by_topic(parameters: Parameters, region: str) -> dict[str, Any]:
    found, token = moto_backend("sns", region).list_subscriptions_by_topic(
        parameters["TopicArn"], next_token=parameters.get("NextToken")
    )
    return {"Subscriptions": [_shown(each) for each in found], "NextToken": token}


def _shown(subscription: Any) -> dict[str, str]:
    is_pending = subscription.protocol in BY_MAIL and not subscription.confirmed
    return {
        "SubscriptionArn": PENDING if is_pending else subscription.arn,
        "Owner": subscription.owner,
        "Protocol": subscription.protocol,
        "Endpoint": subscription.endpoint or "",
        "TopicArn": subscription.topic_arn,
    }


def _delete_topic(parameters: Parameters, region: str) -> dict[str, Any]:
    """Delete the topic and its subscriptions, which moto would keep."""
    backend = moto_backend("sns", region)
    for arn, found in list(backend.subscriptions.items()):
        if found.topic_arn == parameters["TopicArn"]:
            backend.unsubscribe(arn)
    if parameters["TopicArn"] in backend.topics:  # for SNS an absent topic is no error
        backend.delete_topic(parameters["TopicArn"])
    return {}


@lru_cache(maxsize=1)
def _deliver_mails() -> None:
    """Patch moto's subscriptions to pass messages for an address to mail.py."""
    from moto.sns.models import Subscription

    by_moto = Subscription.publish

    def publish(subscription: Any, message: str, *rest: Any, **named: Any) -> None:
        if subscription.protocol == "sqs" and not _has_queue(subscription.endpoint):
            return
        if subscription.protocol not in BY_MAIL:
            by_moto(subscription, message, *rest, **named)
        elif subscription.confirmed:
            mail.send(subscription.endpoint, named.get("subject") or _NO_SUBJECT, message)

    Subscription.publish = publish


def _has_queue(arn: str) -> bool:
    """Return False for a deleted or recorded queue, which is no error for SNS."""
    from moto.sqs.models import sqs_backends

    _, _, _, region, account, name = arn.split(":")
    return name in sqs_backends[account][region].queues


def _find(arn: str) -> Any:
    region = arn.split(":")[3] if arn else ""
    return moto_backend("sns", region).subscriptions.get(arn) if region else None


_OPERATIONS: Mapping[str, Callable[[Parameters, str], dict[str, Any]]] = {
    "ConfirmSubscription": _confirm_by_token,
    "DeleteTopic": _delete_topic,
    "ListSubscriptions": _list,
    "ListSubscriptionsByTopic": _list_by_topic,
    "Subscribe": _subscribe,
}
