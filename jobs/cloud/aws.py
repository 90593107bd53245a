"""Makes all clients of AWS, so that retries and the endpoint are decided in one place.

`client` is for changes, `sender` for submissions, `reader` for questions only. `ask` and `ask_all` return an
Unanswered instead of raising, for callers that can go on without the answer.
"""

from __future__ import annotations

import ipaddress
import math
import os
import random
import threading
import time
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlparse

from slipway.jobs.words.errors import NoAnswer, SlipwayError
from slipway.jobs.words.names import checked_region

_READS = ("Describe", "Get", "List", "BatchGet", "Head", "Filter", "Lookup")
# 403: HeadObject's code, since its answer has no body
_DENIED = frozenset({"403", "AccessDenied", "AccessDeniedException", "UnauthorizedOperation"})
# botocore's names of what a network does.
_NOT_REACHED = frozenset(
    {
        "ConnectionClosedError",
        "ConnectTimeoutError",
        "EndpointConnectionError",
        "HTTPClientError",
        "ProxyConnectionError",
        "ReadTimeoutError",
        "ResponseParserError",
        "SSLError",
    }
)
# What ends with the user's sign-in: codes of AWS's answers, and botocore's names.
SIGNED_OUT = frozenset(
    {
        "CredentialRetrievalError",
        "ExpiredToken",
        "ExpiredTokenException",
        "LoginRefreshRequired",
        "LoginTokenLoadError",
        "RequestExpired",
        "SSOTokenLoadError",
        "TokenRetrievalError",
        "UnauthorizedSSOTokenError",
    }
)
SIGN_IN = "sign in to AWS again (for example `aws sso login`)"
_ASK_AGAIN_SECONDS = 15.0
# Settings of the user's that botocore reads as numbers, without words for one that is none.
_NUMBERS = ("max_attempts", "metadata_service_num_attempts", "metadata_service_timeout")

_MAKING = threading.RLock()  # botocore's sessions are not safe for threads while they make clients
ANY_PURPOSE = "PURPOSE"
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Unanswered:
    """AWS did not answer: the action, the error's code (or botocore's name for it) and its message."""

    action: str  # in IAM's spelling: ec2:DescribeRegions
    code: str
    message: str
    passes: bool = False  # as why_later says

    @property
    def is_denied(self) -> bool:
        return self.code in _DENIED

    @property
    def words(self) -> str:
        return f"{self.action} gave no answer: {self.code}, {self.message[:200]}"

    def remedy(self, purpose: str = ANY_PURPOSE, *, otherwise: str = "") -> str:
        """Return how to be allowed to ask, or `otherwise` if that is not what is missing."""
        return allow(self.action, purpose) if self.is_denied else otherwise


def whole_policy(purpose: str = ANY_PURPOSE) -> str:
    """Name the command that prints the policy of a purpose in jobs/clusters/permissions.py."""
    return f"slipway cluster permissions CLUSTER --for {purpose} prints the policy"


def allow(action: str, purpose: str = ANY_PURPOSE) -> str:
    return f"allow {action} to your role: {whole_policy(purpose)}"


def no_answer(answer: Unanswered, hint: str = "run the same command again") -> NoAnswer:
    """Return the error for callers that cannot go on; unless access was denied, its hint is `hint`."""
    return NoAnswer(
        answer.words,
        code=answer.code,
        hint=answer.remedy(otherwise=hint),
        passes=answer.passes,
    )


def answered(found: T | Unanswered, hint: str = "run the same command again") -> T:
    """Return what was found, for callers that cannot go on without an answer."""
    if isinstance(found, Unanswered):
        raise no_answer(found, hint)
    return found


def is_refusal(error: BaseException) -> bool:
    """Return True if AWS refused a call because the caller's policies do not allow it."""
    answer = (getattr(error, "response", None) or {}).get("Error", {})
    return (error.code if isinstance(error, NoAnswer) else answer.get("Code")) in _DENIED


def why_later(error: BaseException) -> str | None:
    """Return why AWS gave no answer, if it may give one later; None if the caller has to change something.

    It may if it was not reached or failed itself, and after the user has signed in again. Keys in the
    environment stay as they are.
    """
    answer = getattr(error, "response", None) or {}
    code = error.code if isinstance(error, NoAnswer) else answer.get("Error", {}).get("Code")
    names = {code, type(error).__name__}
    if names & SIGNED_OUT:
        return None if os.environ.get("AWS_ACCESS_KEY_ID") else f"{error}; {SIGN_IN}"
    status = answer.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    is_down = bool(names & _NOT_REACHED) or status in SERVER_ERRORS or is_throttled(answer)
    return str(error) if is_down or (isinstance(error, SlipwayError) and error.passes) else None


def outlast(asked: Callable[[], T], pause: Callable[[float], None] = time.sleep) -> T:
    """Return the answer; while it may come later, ask again and say why once.

    This is for what waits for hours: meanwhile a laptop sleeps, its network goes, and credentials expire. A
    yard that is down does not come back.
    """
    until = now() + (DEADLINE_SECONDS if is_in_yard() else math.inf)
    said = ""
    while True:
        try:
            return asked()
        except Exception as error:
            why = why_later(error)
            if why is None or now() > until:
                raise
        if why != said:
            said = why
            _say(f"AWS is asked again until it answers: {why}")
        pause(_ASK_AGAIN_SECONDS)
        forget_clients()


def endpoint() -> str | None:
    """Return the endpoint that the environment names; None means AWS itself."""
    url = os.environ.get("AWS_ENDPOINT_URL")
    if not url or os.environ.get("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "").lower() == "true":
        return None
    if not urlparse(url).hostname:
        raise SlipwayError(
            f"AWS_ENDPOINT_URL is '{url}'; allowed is an address such as http://127.0.0.1:5566",
            hint='unset it for AWS; for the yard: eval "$(slipway yard env)"',
        )
    return url


def own_region() -> str | None:
    """Return the region that the user's own settings name."""
    named = _region(None) or own_session().get_config_variable("region")
    return checked_region(str(named)) if named else None


def is_loopback(url: str) -> bool:
    host = urlparse(url).hostname or ""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def is_in_yard() -> bool:
    """Return True if the endpoint is this machine's yard, where nothing costs money."""
    url = endpoint()
    return url is not None and is_loopback(url)


@lru_cache(maxsize=1)
def own_session() -> Any:
    """Return the botocore session of all clients, which looks for credentials once.

    botocore's, because loading boto3 takes a fifth of the time of a command that only asks.
    """
    import botocore.session

    endpoint()  # botocore has no words for a wrong one
    session = botocore.session.get_session()
    _check_numbers(session)
    session.register("before-sign", _refuse_expired)
    session.register("before-parse", _refuse_page)
    return session


@lru_cache(maxsize=64)
def client(service: str, region: str | None = None) -> Any:
    """Make a client with the user's own credentials and endpoint, for changes.

    It waits out throttling, since AWS does not carry out a throttled request. After a lost answer it repeats
    only operations that may be done twice (SAFE_TWICE).
    """
    changing = _once(service, region)
    be_patient(changing, _say, SAFE_TWICE)
    return changing


@lru_cache(maxsize=64)
def sender(service: str, region: str | None = None) -> Any:
    """Make a client for submissions: it never repeats a request; jobs/platforms/sending.py decides that."""
    return _once(service, region)


def _once(service: str, region: str | None) -> Any:
    """Stop botocore from repeating a request whose answer was lost: a repeated SubmitJob makes two jobs."""
    from botocore.config import Config

    config = Config(retries={"total_max_attempts": 1}, connect_timeout=10, read_timeout=60)
    with _MAKING:
        return _with_transfers(own_session()).client(service, region_name=_region(region), config=config)


@lru_cache(maxsize=1)
def _with_transfers(asking: Any) -> Any:
    """Return boto3's session on top of botocore's: its clients of S3 upload files. There can be only one."""
    import boto3

    return boto3.Session(botocore_session=asking)


@lru_cache(maxsize=64)
def reader(service: str, region: str | None = None) -> Any:
    """Make a client for questions: it may repeat them, and refuses operations that change anything."""
    from botocore.config import Config

    config = Config(retries={"mode": "standard"}, connect_timeout=5, read_timeout=30)
    with _MAKING:
        asking = own_session().create_client(service, region_name=_region(region), config=config)
    asking.meta.events.register("before-call", _only_read)
    be_patient(asking, _say)
    return asking


def session(region: str) -> Any:
    """Make a boto3 session, with which SageMaker's SDKs make clients of their own."""
    import boto3

    return boto3.Session(region_name=region)


def forget_clients() -> None:
    """Make the next clients read the credentials again; those that somebody holds keep theirs."""
    for made in (own_session, client, sender, reader):
        made.cache_clear()


def forget_credentials() -> None:
    """Forget clients, and boto3's default session."""
    import boto3

    forget_clients()
    boto3.setup_default_session()


def ask(client: Any, operation: str, **arguments: Any) -> Any:
    """Return the answer to one call (`operation` in AWS's spelling), or an Unanswered."""
    return _answered(client, operation, lambda method: getattr(client, method)(**arguments))


def ask_all(client: Any, operation: str, key: str, **arguments: Any) -> Any:
    """Return the items under `key` of all pages in one list, or an Unanswered."""
    return _answered(
        client,
        operation,
        lambda method: [
            item for page in client.get_paginator(method).paginate(**arguments) for item in page.get(key, [])
        ],
    )


def _answered(client: Any, operation: str, call: Callable[[str], Any]) -> Any:
    from botocore import xform_name
    from botocore.exceptions import BotoCoreError, ClientError
    from botocore.parsers import ResponseParserError

    try:
        return call(xform_name(operation))
    except (BotoCoreError, ClientError, ResponseParserError) as error:
        answer = (getattr(error, "response", None) or {}).get("Error", {})
        return Unanswered(
            action=f"{client.meta.service_model.signing_name}:{operation}",
            code=answer.get("Code") or type(error).__name__,
            message=answer.get("Message") or str(error),
            passes=why_later(error) is not None,
        )


def _region(region: str | None) -> str | None:
    """boto3 reads AWS_DEFAULT_REGION only, and every other tool of AWS reads AWS_REGION first."""
    named = region or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    return checked_region(named) if named else None


def _say(text: str) -> None:
    from slipway.jobs.output import say

    say(text)


def _check_numbers(session: Any) -> None:
    for name in _NUMBERS:
        try:
            session.get_config_variable(name)
        except ValueError as error:
            value = str(error).partition("'")[2].rstrip("'")
            raise SlipwayError(
                f"AWS_{name.upper()}, or {name} in AWS's configuration, is '{value}'; "
                "allowed is a whole number",
                hint="correct or remove it, then run the command again",
            ) from None


def _refuse_expired(request_signer: Any, **_: Any) -> None:
    """Refuse keys that stay expired, such as the environment's, by a class: botocore has only a message."""
    from botocore.exceptions import CredentialRetrievalError

    keys = request_signer._credentials
    try:
        if keys is not None:
            keys.get_frozen_credentials()
    except RuntimeError as error:
        raise CredentialRetrievalError(provider=keys.method, error_msg=str(error)) from None


def _refuse_page(operation_model: Any, response_dict: Mapping[str, Any], **_: Any) -> None:
    """Refuse a web page, which a proxy or a network's sign-in page sends in place of AWS's answer.

    botocore would read it as an answer in which everything is missing.
    """
    body = response_dict["body"]
    is_page = isinstance(body, bytes) and body.lstrip()[:14].lower().startswith((b"<html", b"<!doctype html"))
    if is_page and response_dict["status_code"] not in SERVER_ERRORS:  # these are repeated
        from botocore.exceptions import HTTPClientError

        raise HTTPClientError(error=f"a web page answered {operation_model.name} in place of AWS")


def _only_read(model: Any, **_: Any) -> None:
    assert model.name.startswith(_READS), f"a reader is asked to {model.name}, which may change something"


class AccessKey(NamedTuple):
    id: str
    secret: str
    token: str | None = None  # of a temporary key


@lru_cache(maxsize=64)
def client_at(url: str, service: str, region: str, key: AccessKey, attempts: int = 1) -> Any:
    """Make a client for one endpoint with keys of its own; it repeats a call up to `attempts` times."""
    import boto3
    from botocore.config import Config

    return boto3.client(
        service,
        region_name=region,
        endpoint_url=url,
        aws_access_key_id=key.id,
        aws_secret_access_key=key.secret,
        aws_session_token=key.token,
        config=Config(
            retries={"mode": "standard", "total_max_attempts": attempts}, s3={"addressing_style": "path"}
        ),
    )


# Waits while AWS throttles, longer each time up to a deadline, and says so. botocore's own standard mode
# gives up after three attempts and says nothing meanwhile.
DEADLINE_SECONDS = 120.0
FIRST_PAUSE_SECONDS = 0.5
# Where many commands share a rate, new requests ask often and would starve those that pause for long.
LONGEST_PAUSE_SECONDS = 5.0
QUIET_SECONDS = 2.0  # shorter pauses are not reported
_TRIES_A_REPORT = 4  # once pauses grow no longer

TOO_MANY_REQUESTS = 429
CODES = frozenset(
    {
        "CallRateLimitExceededException",
        "RequestLimitExceeded",
        "RequestThrottled",
        "SlowDown",
        "Throttled",
        "Throttling",
        "ThrottlingException",
        "TooManyRequestsException",
    }
)
# Operations with the same effect if done twice, so that a lost answer is no reason to give up.
SAFE_TWICE = frozenset(
    {
        "CancelCommand",
        "CancelJob",
        "DeleteObject",
        "DeleteObjects",
        "PutObject",
        "SetDesiredCapacity",
        "SetInstanceProtection",
        "TerminateJob",
        "UploadPart",
    }
)
SERVER_ERRORS = frozenset({500, 502, 503, 504})
_THROTTLED, _FAILED, _UNANSWERED = "AWS throttles", "AWS failed in", "AWS did not answer"
_SINCE, _TRIED = "slipway_throttled_since", "slipway_throttled_times"

# Chance and clock, which tests replace.
share: Callable[[], float] = random.random  # of the pause that is due
now: Callable[[], float] = time.monotonic


def is_throttled(response: Mapping[str, Any]) -> bool:
    """Return True for a throttled answer of botocore's; some services send a code, some only a status."""
    status = response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    return response.get("Error", {}).get("Code") in CODES or status == TOO_MANY_REQUESTS


def be_patient(client: Any, say: Callable[[str], None], safe_twice: AbstractSet[str] = frozenset()) -> None:
    """Make a client wait out throttling; `say` reports each longer pause.

    Operations in `safe_twice` are also repeated if AWS failed, was not reached or its answer was lost.
    """

    def pause(
        response: tuple[Any, Mapping[str, Any]] | None,
        operation: Any,
        request_dict: Mapping[str, Any],
        caught_exception: Exception | None = None,
        **_: Any,
    ) -> float | None:
        """Return the seconds after which botocore asks again; None leaves the decision to botocore."""
        is_safe = operation.name in safe_twice
        trouble = _trouble(response, is_safe) if response else _silence(caught_exception, is_safe)
        if trouble is None:
            return None
        context = request_dict["context"]
        since, tried = context.setdefault(_SINCE, now()), context.get(_TRIED, 0)
        context[_TRIED] = tried + 1
        due = longest_pause(tried)
        left = DEADLINE_SECONDS - (now() - since)
        if due > left:
            return None
        if due >= QUIET_SECONDS and (due < LONGEST_PAUSE_SECONDS or tried % _TRIES_A_REPORT == 0):
            say(again(trouble, f"{operation.service_model.service_id} {operation.name}", left))
        return due * share()

    client.meta.events.register_first("needs-retry", pause)


def longest_pause(tried: int) -> float:
    """Return the seconds to wait at most after so many tries; a random share of them is waited."""
    return float(min(FIRST_PAUSE_SECONDS * 2**tried, LONGEST_PAUSE_SECONDS))


def throttled(what: str, left_seconds: float) -> str:
    return again(_THROTTLED, what, left_seconds)


def again(trouble: str, what: str, left_seconds: float) -> str:
    return f"{trouble} {what}: it is tried again, for at most {left_seconds:.0f} more seconds"


def _silence(error: Exception | None, is_safe_twice: bool) -> str | None:
    """Describe what the network did if the operation may be repeated."""
    from botocore import exceptions

    is_lost = isinstance(error, exceptions.HTTPClientError | exceptions.ConnectionError)
    return _UNANSWERED if is_safe_twice and is_lost else None


def _trouble(response: tuple[Any, Mapping[str, Any]], is_safe_twice: bool) -> str | None:
    """Describe what is wrong with an answer if another try may help; None for every other answer."""
    if is_throttled(response[1]):
        return _THROTTLED
    status = response[1].get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    return _FAILED if is_safe_twice and status in SERVER_ERRORS else None


def refused_upload() -> type[Exception]:
    """Return the exception that boto3 raises when S3 refuses a file; its context is S3's own answer."""
    from boto3.exceptions import S3UploadFailedError

    found: type[Exception] = S3UploadFailedError
    return found
