"""Further settings of buckets, in the words of S3's own requests where a template has others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slipway.yard.cloudformation.resources.api import Setting, call, setting
from slipway.yard.cloudformation.resources.scope import ID, ResourceScope, prop
from slipway.yard.services.s3.lifecycle import renamed

CORS_WORDS = {"ExposedHeaders": "ExposeHeaders", "MaxAge": "MaxAgeSeconds", "Id": "ID"}
# By the property's list: the parameter's list, and the property and parameter that name whom to tell.
NOTIFIED = {
    "TopicConfigurations": ("TopicConfigurations", "Topic", "TopicArn"),
    "QueueConfigurations": ("QueueConfigurations", "Queue", "QueueArn"),
    "LambdaConfigurations": ("LambdaFunctionConfigurations", "Function", "LambdaFunctionArn"),
}
# moto has no call for these; the template alone keeps them.
UNSEEN = (
    "AccelerateConfiguration",
    "AnalyticsConfigurations",
    "IntelligentTieringConfigurations",
    "InventoryConfigurations",
    "MetadataTableConfiguration",
    "MetricsConfigurations",
)


def cors(scope: ResourceScope) -> dict[str, Any]:
    return {
        "CORSRules": [
            renamed(rule, CORS_WORDS) for rule in scope.properties["CorsConfiguration"]["CorsRules"]
        ]
    }


def website(scope: ResourceScope) -> dict[str, Any]:
    """Return the pages as S3 wants them: each in an object of its own."""
    given = scope.properties["WebsiteConfiguration"]
    rules = [
        {"Redirect": rule["RedirectRule"], "Condition": rule.get("RoutingRuleCondition") or {}}
        for rule in given.get("RoutingRules") or ()
    ]
    parts = {
        "IndexDocument": {"Suffix": given["IndexDocument"]} if "IndexDocument" in given else None,
        "ErrorDocument": {"Key": given["ErrorDocument"]} if "ErrorDocument" in given else None,
        "RedirectAllRequestsTo": given.get("RedirectAllRequestsTo"),
        "RoutingRules": rules or None,
    }
    return {name: value for name, value in parts.items() if value}


def notifications(scope: ResourceScope) -> dict[str, Any]:
    given = dict(scope.properties.get("NotificationConfiguration") or {})
    bridge = given.get("EventBridgeConfiguration", {}).get("EventBridgeEnabled")
    listed = {
        to: [_notified(item, whom, arn) for item in given.get(name) or ()]
        for name, (to, whom, arn) in NOTIFIED.items()
    }
    return {**listed, **({"EventBridgeConfiguration": {}} if bridge else {})}


def _notified(item: Mapping[str, Any], whom: str, arn: str) -> dict[str, Any]:
    rules = (item.get("Filter") or {}).get("S3Key", {}).get("Rules")
    found = {arn: item[whom], "Events": [item["Event"]]}
    return {**found, "Filter": {"Key": {"FilterRules": rules}}} if rules else found


def _set(name: str, put: str, remove: str, **parameters: Any) -> Setting:
    return setting(name, put=call(put, Bucket=ID, **parameters), remove=call(remove, Bucket=ID))


SETTINGS = (
    _set("CorsConfiguration", "put_bucket_cors", "delete_bucket_cors", CORSConfiguration=cors),
    _set("WebsiteConfiguration", "put_bucket_website", "delete_bucket_website", WebsiteConfiguration=website),
    _set(
        "ReplicationConfiguration",
        "put_bucket_replication",
        "delete_bucket_replication",
        ReplicationConfiguration=prop("ReplicationConfiguration"),
    ),
    setting(
        "ObjectLockConfiguration",
        put=call(
            "put_object_lock_configuration",
            Bucket=ID,
            ObjectLockConfiguration=prop("ObjectLockConfiguration"),
        ),
        remove=lambda _scope: None,  # S3 never takes it off a bucket
    ),
    setting(
        "NotificationConfiguration",
        put=call(
            "put_bucket_notification_configuration",
            Bucket=ID,
            NotificationConfiguration=notifications,
            SkipDestinationValidation=True,
        ),
    ),
    setting(*UNSEEN, put=lambda _scope: None),
)
