"""Finds the actions that a call to S3 needs: they differ from its operations, and depend on headers.

Source: Amazon S3 user guide, "Required permissions for Amazon S3 API operations".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from urllib.parse import unquote

from slipway.yard.moto_backends import moto_backend
from slipway.yard.permissions.calls.arns import resource_types
from slipway.yard.permissions.calls.asked import ActionNeed, AskedCall, NotJudged
from slipway.yard.permissions.calls.encrypted import in_bucket

# Operations on objects whose action has the same name, and the actions of all others.
_SAME = (
    "AbortMultipartUpload DeleteObject DeleteObjectTagging GetObject GetObjectAcl GetObjectLegalHold "
    "GetObjectRetention GetObjectTagging PutObject PutObjectAcl PutObjectLegalHold PutObjectRetention "
    "PutObjectTagging RestoreObject"
)
OBJECT: Mapping[str, tuple[str, ...]] = {
    **{name: (name,) for name in _SAME.split()},
    "CompleteMultipartUpload": ("PutObject",),
    "CopyObject": ("PutObject",),
    "CreateMultipartUpload": ("PutObject",),
    "DeleteObjects": ("DeleteObject",),
    "GetObjectAttributes": ("GetObject", "GetObjectAttributes"),
    "HeadObject": ("GetObject",),
    "ListParts": ("ListMultipartUploadParts",),
    "UploadPart": ("PutObject",),
    "UploadPartCopy": ("PutObject",),
}
# Operations whose action on a version has a name of its own, such as GetObjectVersionTagging.
_OF_VERSIONS = (
    "DeleteObject DeleteObjectTagging GetObject GetObjectAcl GetObjectAttributes GetObjectTagging "
    "PutObjectAcl PutObjectTagging"
)
VERSIONED: Mapping[str, str] = {
    name: name.replace("Object", "ObjectVersion") for name in _OF_VERSIONS.split()
}
# Settings of buckets whose actions have another name than the operations; who may put one may delete it.
_SETTINGS: Mapping[str, str] = {
    "BucketAccelerateConfiguration": "AccelerateConfiguration",
    "BucketCors": "BucketCORS",
    "BucketEncryption": "EncryptionConfiguration",
    "BucketLifecycle": "LifecycleConfiguration",
    "BucketLifecycleConfiguration": "LifecycleConfiguration",
    "BucketNotificationConfiguration": "BucketNotification",
    "BucketReplication": "ReplicationConfiguration",
    "BucketTagging": "BucketTagging",
    "ObjectLockConfiguration": "BucketObjectLockConfiguration",
    "PublicAccessBlock": "BucketPublicAccessBlock",
}
# Operations on buckets whose action has another name.
BUCKET: Mapping[str, str] = {
    **{
        verb + name: right + action
        for name, action in _SETTINGS.items()
        for verb, right in (("Get", "Get"), ("Put", "Put"), ("Delete", "Put"))
    },
    "HeadBucket": "ListBucket",
    "ListMultipartUploads": "ListBucketMultipartUploads",
    "ListObjectVersions": "ListBucketVersions",
    "ListObjects": "ListBucket",
    "ListObjectsV2": "ListBucket",
}
# Header -> further action that it needs.
BY_HEADER: Mapping[str, str] = {
    "x-amz-acl": "PutObjectAcl",
    "x-amz-object-lock-mode": "PutObjectRetention",
    "x-amz-tagging": "PutObjectTagging",
}
_QUERY_KEYS = ("prefix", "delimiter", "max-keys", "versionid")
_CREATES = frozenset({"PutObject", "CreateMultipartUpload", "CopyObject"})
_READS = frozenset({"GetObject", "HeadObject"})
_COPIES = frozenset({"CopyObject", "UploadPartCopy"})


def needs(call: AskedCall) -> Iterator[ActionNeed]:
    """Yield the needs; `call.parameters` holds Bucket, Key, the query's values.

    DeleteObjects has Keys, and VersionedKeys of which it names a version.
    """
    if call.operation == "ListBuckets":
        yield ActionNeed(action="s3:ListAllMyBuckets")
        return
    given = {name.lower(): str(value) for name, value in call.parameters.items()}
    query = {f"s3:{name}": (given[name],) for name in _QUERY_KEYS if name in given}
    headers = {f"s3:{name}": (value,) for name, value in call.headers.items() if name.startswith("x-amz-")}
    # As if the request had used TLS 1.3, as on AWS; the yard's endpoint on the loopback address uses plain
    # HTTP.
    keys = {**headers, **query, "s3:tlsversion": ("1.3",), "s3:authtype": ("REST-HEADER",)}
    if call.operation in OBJECT:
        yield from _of_object(call, keys)
        return
    action = f"s3:{BUCKET.get(call.operation, call.operation)}"
    if resource_types(action) is None:
        raise NotJudged
    yield ActionNeed(action=action, resource=f"arn:aws:s3:::{call.parameters['Bucket']}", keys=keys)


def _of_object(call: AskedCall, keys: Mapping[str, tuple[str, ...]]) -> Iterator[ActionNeed]:
    bucket = str(call.parameters["Bucket"])
    versioned = call.parameters.get("VersionedKeys") or []
    names = call.parameters.get("Keys") or ([] if versioned else [call.parameters.get("Key", "")])
    assert isinstance(names, list)
    assert isinstance(versioned, list)
    for name in versioned:
        yield ActionNeed(action="s3:DeleteObjectVersion", resource=f"arn:aws:s3:::{bucket}/{name}", keys=keys)
    has_version = "versionId" in call.parameters and call.operation in VERSIONED
    actions = (VERSIONED[call.operation],) if has_version else OBJECT[call.operation]
    if call.operation in _CREATES:
        actions += tuple(action for header, action in BY_HEADER.items() if header in call.headers)
    for name in names:
        for action in actions:
            yield ActionNeed(action=f"s3:{action}", resource=f"arn:aws:s3:::{bucket}/{name}", keys=keys)
        yield from in_bucket(call, bucket, str(name))
    stored = moto_backend("s3").buckets.get(bucket)  # an absent bucket is refused elsewhere
    if call.operation in _READS and stored is not None and str(names[0]) not in stored.keys:
        # S3 says that an object is missing only to callers that may list the bucket ("GetObject", errors).
        yield ActionNeed(action="s3:ListBucket", resource=f"arn:aws:s3:::{bucket}", keys=keys)
    if call.operation in _COPIES:
        source = unquote(call.headers.get("x-amz-copy-source", "")).partition("?")[0].removeprefix("/")
        yield ActionNeed(action="s3:GetObject", resource=f"arn:aws:s3:::{source}", keys=keys)
