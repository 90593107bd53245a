"""What a service needs of a KMS key on behalf of the caller; kms:ViaService names the service.

Sources: S3 user guide, "Using server-side encryption with AWS KMS keys"; Secrets Manager user guide, "Secret
encryption and decryption"; SNS developer guide, "Key management"; SSM user guide, "SecureString".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from slipway.yard.endpoint import ACCOUNT
from slipway.yard.moto_backends import moto_backend
from slipway.yard.permissions.calls.asked import ActionNeed, AskedCall, found, key_arn, secret_arn

# AWS managed keys (aws/s3, aws/ssm, …): their policies allow everybody who may use the service.
_OF_AWS = "alias/aws/"
_READS = frozenset({"GetObject"})
_WRITES = frozenset({"PutObject", "CopyObject", "CreateMultipartUpload"})
_OF_PARTS = frozenset({"UploadPart", "UploadPartCopy", "CompleteMultipartUpload"})  # decrypt to re-encrypt
_SECRET_READS = frozenset({"GetSecretValue"})
_SECRET_WRITES = frozenset({"PutSecretValue", "CreateSecret", "UpdateSecret"})


def needs(call: AskedCall) -> Iterator[ActionNeed]:
    """Yield what the call needs of keys besides its own action; in_bucket does so for S3."""
    if of_service := _BY_SERVICE.get(call.service):
        yield from of_service(call)


def in_bucket(call: AskedCall, bucket: str, name: str) -> Iterator[ActionNeed]:
    found_bucket: Any = moto_backend("s3").buckets.get(bucket)
    if found_bucket is None:
        return
    if call.operation in _READS:
        stored: Any = found_bucket.keys.get(name)
        is_kms = stored and str(stored.encryption or "").startswith("aws:kms")
        key = (stored.kms_key_id or _default_key(found_bucket)) if is_kms else ""
        actions: tuple[str, ...] = ("kms:Decrypt",)
    elif call.operation in _WRITES | _OF_PARTS:
        by_header = call.headers.get("x-amz-server-side-encryption-aws-kms-key-id", "")
        key = by_header or _default_key(found_bucket)
        actions = ("kms:GenerateDataKey", *(("kms:Decrypt",) if call.operation in _OF_PARTS else ()))
    else:
        return
    context = {"kms:encryptioncontext:aws:s3:arn": (f"arn:aws:s3:::{bucket}",)}
    yield from _via(call, "s3", key, actions, context)


def _default_key(bucket: Any) -> str:
    rule = ((bucket.encryption or {}).get("Rule") or {}).get("ApplyServerSideEncryptionByDefault") or {}
    return str(rule.get("KMSMasterKeyID", ""))


def _secret(call: AskedCall) -> Iterator[ActionNeed]:
    if call.operation not in _SECRET_READS | _SECRET_WRITES:
        return
    given = "".join(found(call.parameters, "SecretId") or found(call.parameters, "Name"))
    secret = moto_backend("secretsmanager", call.region).secrets.get(given)
    key = str((secret and secret.kms_key_id) or call.parameters.get("KmsKeyId") or "")
    reads = call.operation in _SECRET_READS
    actions = ("kms:Decrypt",) if reads else ("kms:GenerateDataKey", "kms:Decrypt")
    context = {"kms:encryptioncontext:secretarn": (secret_arn(given, call.region),)}
    yield from _via(call, "secretsmanager", key, actions, context)


def _topic(call: AskedCall) -> Iterator[ActionNeed]:
    if call.operation not in ("Publish", "PublishBatch"):
        return
    topic = moto_backend("sns", call.region).topics.get("".join(found(call.parameters, "TopicArn")))
    key = str((topic and topic.kms_master_key_id) or "")
    yield from _via(call, "sns", key, ("kms:GenerateDataKey", "kms:Decrypt"), {})


def _parameter(call: AskedCall) -> Iterator[ActionNeed]:
    if call.operation == "PutParameter" and call.parameters.get("Type") == "SecureString":
        yield from _via(call, "ssm", str(call.parameters.get("KeyId") or ""), ("kms:Encrypt",), {})
    if call.parameters.get("WithDecryption"):
        for name in (*found(call.parameters, "Name"), *found(call.parameters, "Names[]")):
            stored: Any = moto_backend("ssm", call.region).get_parameter(name)
            if stored and stored.parameter_type == "SecureString":
                yield from _via(call, "ssm", str(stored.keyid or ""), ("kms:Decrypt",), {})


def _via(
    call: AskedCall,
    service: str,
    key: str,
    actions: tuple[str, ...],
    context: Mapping[str, tuple[str, ...]],
) -> Iterator[ActionNeed]:
    if not key or key.startswith(_OF_AWS):
        return
    by = f"{service}.{call.region}.amazonaws.com"
    keys = {"kms:viaservice": (by,), "kms:calleraccount": (ACCOUNT,), **context}
    for action in actions:
        yield ActionNeed(action=action, resource=key_arn(key, call.region), keys=keys, via=by)


_BY_SERVICE: Mapping[str, Callable[[AskedCall], Iterator[ActionNeed]]] = {
    "secretsmanager": _secret,
    "sns": _topic,
    "ssm": _parameter,
}
