"""Read text from S3: the objects below s3://bucket/prefix, each at the ETag that it had when it was listed.

obstore signs, finds credentials (environment, ECS task, EC2 instance by IMDSv2) and retries. Checkpoints
(training/bucket.py) and results of functions (tasks/call.py) use `store` and `explained` too. To explain
another failure to users, add a row to CAUSES.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cache
from urllib.parse import urlsplit

from obstore.exceptions import BaseError
from obstore.store import S3Store

from slipway.containers.data.errors import DataError, PassingError
from slipway.containers.data.sources.locations import bucket_and_key, is_loopback
from slipway.containers.data.sources.sources import FetchSource, SourceFile, check_name

READS_AT_ONCE = 8
ENDPOINT_VARIABLES = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")  # the first that is set wins, as in AWS SDKs
METADATA_VARIABLE = "AWS_EC2_METADATA_SERVICE_ENDPOINT"
OWNER = re.compile(r"[0-9]{12}")
# obstore's default, ten retries, keeps a person waiting for minutes when nobody answers.
RETRIES = {"max_retries": 5, "retry_timeout": timedelta(minutes=2)}
TIMEOUT = timedelta(minutes=2)  # for one request, which reads some megabytes

MAY_READ = (
    "allow s3:ListBucket and s3:GetObject to the role or user that reads; a cluster's jobs may read "
    "datasets/ and jobs/ of its own bucket, and no other account's buckets"
)
CREDENTIALS = (
    "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY; to take them from a profile: "
    'eval "$(aws configure export-credentials --format env)"'
)
REGION = "set AWS_REGION to the bucket's region"
REPEAT = "run the same command again when nothing writes to it"
# Text in obstore's message, what it means, and what to do; the first row that matches counts. An empty hint
# stands for the permission that the caller lacks. The message itself is never shown: it can hold a token.
CAUSES: tuple[tuple[str, str, str], ...] = (
    ("<Code>NoSuchBucket<", "the bucket does not exist", "look at its name: aws s3 ls"),
    ("412 Precondition", "it changed since the run began: it has another ETag", REPEAT),
    ("<Code>InvalidObjectState<", "it is archived", "restore it first: aws s3api restore-object"),
    ("<Code>ExpiredToken<", "the credentials have expired", CREDENTIALS),
    ("<Code>InvalidAccessKeyId<", "AWS does not know the access key", CREDENTIALS),
    ("<Code>SignatureDoesNotMatch<", "the secret key does not belong to the access key", CREDENTIALS),
    ("169.254.", "no AWS credentials were found", CREDENTIALS),
    ("<Code>AuthorizationHeaderMalformed<", "the bucket is in another region", REGION),
    ("without LOCATION", "the bucket is in another region", REGION),
    ("PermanentRedirect", "the bucket is in another region", REGION),
    ("403 Forbidden", "access is denied", ""),
    ("401 Unauthorized", "access is denied", ""),
    ("404 Not Found", "it does not exist", "look at what there is: aws s3 ls"),
    ("416 Range", "it became shorter since the run began", REPEAT),
    ("NotPartial", "the server does not answer Range requests", "read from S3 itself, or copy the text here"),
    ("UnexpectedRange", "the server answers with other bytes than were asked for", "read from S3 itself"),
    ("illegal character", "a key leads out of its prefix", "use keys without '..', '.' or '//'"),
    ("empty path segment", "a key has an empty part", "use keys without '..', '.' or '//'"),
    ("error sending request", "S3 does not answer", "check the network, AWS_REGION and AWS_ENDPOINT_URL"),
)
_PASSING = re.compile(r"status code: (?:5\d\d|429)\b|error sending request|<Code>ExpiredToken<")


@dataclass(frozen=True, slots=True)
class Bucket:
    name: str
    endpoint: str | None
    owner: str | None


@dataclass(frozen=True, slots=True)
class Fetch:
    """Get a range of bytes of an object. Picklable; each process opens its own connections."""

    bucket: Bucket
    prefix: str  # ends in a slash; "" is the whole bucket

    def __call__(self, file: SourceFile, start: int, stop: int) -> bytes:
        key = self.prefix + file.name
        try:
            found = store(self.bucket).get(key, options={"range": (start, stop), "if_match": file.etag})
            content = found.bytes().to_bytes()
        except (BaseError, OSError) as error:
            raise explained(error, f"s3://{self.bucket.name}/{key}") from None
        if found.meta["e_tag"] != file.etag:  # the server ignores If-Match
            raise DataError(f"s3://{self.bucket.name}/{key} changed since the run began", hint=REPEAT)
        return content


def open_source(text: str, names: tuple[str, ...] = (), bucket_owner: str | None = None) -> FetchSource:
    """Open the named objects below a prefix, by default all; or the one object that the address names."""
    bucket_name, key = bucket_and_key(text)
    bucket = Bucket(bucket_name, endpoint_of(os.environ), bucket_owner)
    if bucket_owner is not None and not OWNER.fullmatch(bucket_owner):
        raise DataError(
            f"--bucket-owner is {bucket_owner[:40]!r}", hint="give the 12 digits of an AWS account"
        )
    prefix = f"{key}/" if key else ""
    try:
        files = [head(bucket, prefix, name) for name in names] if names else list(below(bucket, prefix))
        if not files and key and not names:
            prefix, _, last = f"/{key}".rpartition("/")
            prefix = f"{prefix[1:]}/" if prefix else ""
            files = [head(bucket, prefix, last)]
    except (BaseError, OSError) as error:
        raise explained(error, text) from None
    if not files:
        raise DataError(f"{text} holds no objects", hint="give a prefix with text below it")
    location = f"s3://{bucket_name}/{key}"
    return FetchSource(tuple(sorted(files)), Fetch(bucket, prefix), location, READS_AT_ONCE)


def below(bucket: Bucket, prefix: str) -> Iterator[SourceFile]:
    """Yield the objects below a prefix; skip those with a dot at the start of a name, as in a folder."""
    # obstore does not sign default headers when it lists, and S3 refuses an unsigned x-amz- header.
    for objects in store(replace(bucket, owner=None)).list(prefix or None):
        for found in objects:
            name = found["path"][len(prefix) :]
            if not any(part.startswith(".") for part in name.split("/")):
                yield SourceFile(name, found["size"], tag_of(found["e_tag"], name))


def head(bucket: Bucket, prefix: str, name: str) -> SourceFile:
    check_name(name)
    found = store(bucket).head(prefix + name)
    return SourceFile(name, found["size"], tag_of(found["e_tag"], name))


def tag_of(etag: str | None, name: str) -> str:
    if not etag:
        raise DataError(f"the endpoint gives no ETag for {name}", hint="copy the text here and give the copy")
    return etag


def endpoint_of(environment: os._Environ[str] | dict[str, str]) -> str | None:
    """Return the S3 endpoint; None is AWS itself. Refuse plain HTTP, unless to this machine."""
    name = next((name for name in ENDPOINT_VARIABLES if environment.get(name)), None)
    if name is None:
        return None
    parts = urlsplit(environment[name])
    if parts.scheme != "https" and not is_loopback(parts.hostname or ""):
        raise DataError(
            f"{name} is {parts.scheme}://{parts.hostname}, which is not encrypted",
            hint="give an https:// endpoint; http is for this machine only",
        )
    return environment[name]


def store(bucket: Bucket) -> S3Store:
    if first_process() != os.getpid():
        raise DataError(
            "this process was forked from one that had read from S3, and would hang",
            hint="start workers with multiprocessing's 'spawn'",
        )
    return opened(bucket)


@cache
def first_process() -> int:
    """Return the id of the first process that called this: a fork inherits the answer, not the threads."""
    return os.getpid()


@cache
def opened(bucket: Bucket) -> S3Store:
    # obstore signs this header when it reads an object; a test checks it.
    owner = {"x-amz-expected-bucket-owner": bucket.owner} if bucket.owner else {}
    endpoint = {"endpoint": bucket.endpoint} if bucket.endpoint else {}
    # AWS's SDKs read this variable; obstore takes the address as an option of another name.
    if metadata := os.environ.get(METADATA_VARIABLE):
        endpoint["metadata_endpoint"] = metadata.rstrip("/")
    return S3Store(
        bucket.name,
        client_options={
            "allow_http": bool(bucket.endpoint and bucket.endpoint.startswith("http:")),
            "default_headers": owner,
            "timeout": TIMEOUT,
        },
        retry_config=RETRIES,  # type: ignore[arg-type]  # a dict of the same keys
        **endpoint,  # type: ignore[arg-type]  # likewise
    )


def explained(error: Exception, location: str, permission: str = MAY_READ) -> DataError:
    """Explain a failure of obstore without its text; `permission` says what to allow if access is denied."""
    message = str(error)
    kind = PassingError if _PASSING.search(message) else DataError
    for words, what, hint in CAUSES:
        if words in message:
            return kind(f"{location}: {what}", hint=hint or permission)
    code = re.search(r"<Code>(\w{1,60})<", message) or re.search(r"status code: (\d{3})", message)
    return kind(
        f"{location}: the request failed: {code[1] if code else type(error).__name__}",
        hint="run the same command again",
    )
