"""Text in S3: the objects below s3://bucket/prefix, each read at the ETag that it had when it was listed.

obstore signs, finds credentials (environment, ECS task, EC2 instance by IMDSv2) and repeats what fails. A new
cause that people should read in words is a row of CAUSES.
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

from slipway.containers.data.errors import DataError
from slipway.containers.data.sources.locations import bucket_and_key, is_loopback
from slipway.containers.data.sources.sources import FetchSource, SourceFile, check_name

READS_AT_ONCE = 8
ENDPOINT_VARIABLES = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")  # as in every AWS SDK, the first one wins
METADATA_VARIABLE = "AWS_EC2_METADATA_SERVICE_ENDPOINT"
OWNER = re.compile(r"[0-9]{12}")
# Ten attempts, the library's own number, keep a person waiting for minutes where nobody answers.
RETRIES = {"max_retries": 5, "retry_timeout": timedelta(minutes=2)}
TIMEOUT = timedelta(minutes=2)  # of one stretch of some megabytes

MAY_READ = (
    "allow s3:ListBucket and s3:GetObject to the role or user that reads; a cluster's jobs may read "
    "datasets/ and jobs/ of its own bucket, and no other account's buckets"
)
CREDENTIALS = (
    "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY; of a profile: "
    'eval "$(aws configure export-credentials --format env)"'
)
REGION = "set AWS_REGION to the bucket's region"
REPEAT = "run the same command again when nothing writes to it"
# What the library's account of a failure contains, what it means, what to do. The account itself is never
# shown: it can hold a token. The first that fits counts.
CAUSES: tuple[tuple[str, str, str], ...] = (
    ("<Code>NoSuchBucket<", "the bucket does not exist", "look at its name: aws s3 ls"),
    ("412 Precondition", "it changed since the run began: its ETag is another one", REPEAT),
    ("<Code>InvalidObjectState<", "it is archived", "restore it first: aws s3api restore-object"),
    ("<Code>ExpiredToken<", "the credentials have expired", CREDENTIALS),
    ("<Code>InvalidAccessKeyId<", "AWS does not know the access key", CREDENTIALS),
    ("<Code>SignatureDoesNotMatch<", "the secret key does not fit the access key", CREDENTIALS),
    ("169.254.", "no AWS credentials were found", CREDENTIALS),
    ("<Code>AuthorizationHeaderMalformed<", "the bucket is in another region", REGION),
    ("without LOCATION", "the bucket is in another region", REGION),
    ("PermanentRedirect", "the bucket is in another region", REGION),
    ("403 Forbidden", "reading it is denied", MAY_READ),
    ("401 Unauthorized", "reading it is denied", MAY_READ),
    ("404 Not Found", "it does not exist", "look at what there is: aws s3 ls"),
    ("416 Range", "it became shorter since the run began", REPEAT),
    ("NotPartial", "the server does not answer Range requests", "read from S3 itself, or copy the text here"),
    ("UnexpectedRange", "the server answers with another stretch than was asked for", "read from S3 itself"),
    ("illegal character", "a key leads out of its prefix", "use keys without '..', '.' or '//'"),
    ("empty path segment", "a key leads nowhere", "use keys without '..', '.' or '//'"),
    ("error sending request", "nobody answers", "check the network, AWS_REGION and AWS_ENDPOINT_URL"),
)


@dataclass(frozen=True, slots=True)
class Bucket:
    name: str
    endpoint: str | None
    owner: str | None


@dataclass(frozen=True, slots=True)
class Fetch:
    """Get a stretch of an object. Picklable; each process opens its own connections."""

    bucket: Bucket
    prefix: str  # with its last slash; "" is the whole bucket

    def __call__(self, file: SourceFile, start: int, stop: int) -> bytes:
        key = self.prefix + file.name
        try:
            found = store(self.bucket).get(key, options={"range": (start, stop), "if_match": file.etag})
            content = found.bytes().to_bytes()
        except (BaseError, OSError) as error:
            raise explained(error, f"s3://{self.bucket.name}/{key}") from None
        if found.meta["e_tag"] != file.etag:  # a server that knows no If-Match
            raise DataError(f"s3://{self.bucket.name}/{key} changed since the run began", hint=REPEAT)
        return content


def open_source(text: str, names: tuple[str, ...] = (), bucket_owner: str | None = None) -> FetchSource:
    """Open all objects below the prefix, those of these names below it, or the one object that it names."""
    name, key = bucket_and_key(text)
    bucket = Bucket(name, endpoint_of(os.environ), checked_owner(bucket_owner))
    prefix = f"{key}/" if key else ""
    try:
        files = [head(bucket, prefix, each) for each in names] if names else list(below(bucket, prefix))
        if not files and key and not names:
            prefix, _, last = f"/{key}".rpartition("/")
            prefix = f"{prefix[1:]}/" if prefix else ""
            files = [head(bucket, prefix, last)]
    except (BaseError, OSError) as error:
        raise explained(error, text) from None
    if not files:
        raise DataError(f"{text} holds no objects", hint="give the prefix that the text lies below")
    return FetchSource(tuple(sorted(files)), Fetch(bucket, prefix), f"s3://{name}/{key}", READS_AT_ONCE)


def below(bucket: Bucket, prefix: str) -> Iterator[SourceFile]:
    """Yield the objects below a prefix, like the files of a folder: names that begin with a dot are
    skipped."""
    # The library does not sign what it always sends when it lists, and S3 refuses such a header unsigned.
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
        raise DataError(f"the endpoint gives no ETag of {name}", hint="copy the text here and give the files")
    return etag


def endpoint_of(environment: os._Environ[str] | dict[str, str]) -> str | None:
    """Return the S3 endpoint; None is AWS itself. Keys and text go unencrypted only to this machine."""
    name = next((name for name in ENDPOINT_VARIABLES if environment.get(name)), None)
    if name is None:
        return None
    parts = urlsplit(environment[name])
    if parts.scheme != "https" and not is_loopback(parts.hostname or ""):
        raise DataError(
            f"{name} is {parts.scheme}://{parts.hostname}, which is not encrypted",
            hint="name an https:// endpoint; http is for this machine only",
        )
    return environment[name]


def checked_owner(owner: str | None) -> str | None:
    if owner is not None and not OWNER.fullmatch(owner):
        raise DataError(f"--bucket-owner is {owner[:40]!r}", hint="give the 12 digits of an AWS account")
    return owner


def store(bucket: Bucket) -> S3Store:
    if first_process() != os.getpid():
        raise DataError(
            "this process was forked from one that had read from S3, and would wait forever",
            hint="start workers by multiprocessing's 'spawn'",
        )
    return opened(bucket)


@cache
def first_process() -> int:
    """Return the id of the process that asked first: a fork inherits the answer but not the library's
    threads."""
    return os.getpid()


@cache
def opened(bucket: Bucket) -> S3Store:
    # Signed with the rest when an object is read; the tests look.
    owner = {"x-amz-expected-bucket-owner": bucket.owner} if bucket.owner else {}
    endpoint = {"endpoint": bucket.endpoint} if bucket.endpoint else {}
    # AWS's SDKs know this variable; the library has a name of its own for it.
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


def explained(error: Exception, location: str) -> DataError:
    account = str(error)
    for words, what, hint in CAUSES:
        if words in account:
            return DataError(f"{location}: {what}", hint=hint)
    code = re.search(r"<Code>(\w{1,60})<", account) or re.search(r"status code: (\d{3})", account)
    return DataError(
        f"{location} cannot be read: {code[1] if code else type(error).__name__}",
        hint="run the same command again; finished shards are kept",
    )
