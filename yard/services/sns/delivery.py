"""Delivers what AWS services publish to a topic on their own, if the topic's policy and key allow it.

To add a service: a row of PUBLISHERS.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from slipway.yard.endpoint import ACCOUNT
from slipway.yard.moto_backends import moto_backend
from slipway.yard.permissions.roles import judge_service

_KEY_USE = ("kms:GenerateDataKey", "kms:Decrypt")
_OWN_KEY = "alias/aws/sns"  # AWS managed key; its policy allows no service


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPublisher:
    """A service principal, and the condition keys that it sends to SNS and on to KMS."""

    principal: str
    to_sns: tuple[str, ...]
    to_kms: tuple[str, ...]


# A topic's default policy checks the owner, which only CloudWatch sends. EventBridge sends KMS no condition
# keys (Amazon SNS developer guide, "Key management").
PUBLISHERS: Mapping[str, TopicPublisher] = {
    "budgets": TopicPublisher(
        principal="budgets.amazonaws.com",
        to_sns=("aws:SourceAccount", "aws:SourceArn"),
        to_kms=("aws:SourceAccount", "aws:SourceArn"),
    ),
    "cloudwatch": TopicPublisher(
        principal="cloudwatch.amazonaws.com",
        to_sns=("aws:SourceAccount", "aws:SourceArn", "aws:SourceOwner"),
        to_kms=("aws:SourceAccount", "aws:SourceArn"),
    ),
    "events": TopicPublisher(
        principal="events.amazonaws.com", to_sns=("aws:SourceAccount", "aws:SourceArn"), to_kms=()
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication:
    """A service's message to a topic, for an alarm, a rule or a budget."""

    service: str  # a key of PUBLISHERS
    source_arn: str
    topic_arn: str
    subject: str | None = None
    message: str


_lost: list[str] = []
_MOST_KEPT = 100


def publish(publication: Publication) -> str | None:
    """Publish; return why it was refused, in AWS's words, or None if it was delivered."""
    topic = moto_backend("sns", publication.topic_arn.split(":")[3]).topics.get(publication.topic_arn)
    if topic is None:
        return f"Topic does not exist: {publication.topic_arn}"
    if problem := _refused_by_topic(publication) or _refused_by_key(publication, topic.kms_master_key_id):
        return problem
    topic.publish(publication.message, subject=publication.subject)
    return None


def lost(source_arn: str, target_arn: str, problem: str) -> None:
    """Record an undelivered message for `slipway yard status`: AWS would not report it."""
    _lost.append(f"{source_arn} to {target_arn}: {problem}")
    del _lost[:-_MOST_KEPT]


def undelivered() -> list[str]:
    return list(_lost)


def reset() -> None:
    _lost.clear()


def _refused_by_topic(publication: Publication) -> str | None:
    publisher = PUBLISHERS[publication.service]
    sent = _sent(publisher.to_sns, publication)
    if judge_service(publisher.principal, "sns:Publish", publication.topic_arn, sent).is_allowed:
        return None
    return (
        f"Resource: {publication.source_arn} is not authorized to perform: SNS:Publish on resource: "
        f"{publication.topic_arn} because no resource-based policy allows the SNS:Publish action"
    )


def _refused_by_key(publication: Publication, key_id: str) -> str | None:
    if not key_id:
        return None
    publisher, key_arn = PUBLISHERS[publication.service], _key_arn(key_id, publication.topic_arn)
    sent = _sent(publisher.to_kms, publication)
    if key_arn and all(judge_service(publisher.principal, use, key_arn, sent).is_allowed for use in _KEY_USE):
        return None
    return f"{publisher.principal} does not have authorization to access the SNS topic encryption key."


def _sent(names: tuple[str, ...], publication: Publication) -> dict[str, str]:
    values = {
        "aws:SourceAccount": ACCOUNT,
        "aws:SourceArn": publication.source_arn,
        "aws:SourceOwner": ACCOUNT,
    }
    return {name: values[name] for name in names}


def _key_arn(key_id: str, topic_arn: str) -> str | None:
    """Return the ARN of the topic's key, if it is enabled; None if no service may use it."""
    backend = moto_backend("kms", topic_arn.split(":")[3])
    name = key_id.rpartition(":")[2] if ":alias/" in key_id else key_id
    if name == _OWN_KEY:
        return None
    is_alias = name.startswith("alias/")
    identifier = backend.get_key_id_from_alias(name) if is_alias else backend.get_key_id(name)
    key = backend.keys.get(identifier)
    return str(key.arn) if key and key.key_state == "Enabled" else None
