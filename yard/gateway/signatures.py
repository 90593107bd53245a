"""Reads a request's AWS signature, and compares it with the signature that the key would make.

botocore signs the same request again with the secret that the yard knows. Every service accepts Signature
Version 4 in the header. Only S3 accepts one in the query (presigned URLs), also Version 2, boto3's default.
To add a way to sign: a branch of read, and a line of _EXPECTED.
"""

from __future__ import annotations

import hashlib
import hmac
import io
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from enum import Enum
from typing import IO, Any
from urllib.parse import parse_qsl, quote, unquote_to_bytes, urlsplit

from botocore.auth import HmacV1QueryAuth, S3SigV4Auth, SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.compat import HTTPHeaders
from botocore.credentials import Credentials

from slipway.yard.errors import ApiError
from slipway.yard.permissions.keys import Key

LARGEST_SKEW_S = 15 * 60
LONGEST_PRESIGNED_S = 7 * 24 * 60 * 60
S3 = "s3"
UNSIGNED = "UNSIGNED-PAYLOAD"
# S3's values for "the body is not part of the signature". The signatures of single chunks are not checked.
UNHASHED = frozenset(
    {
        UNSIGNED,
        "STREAMING-UNSIGNED-PAYLOAD-TRAILER",
        "STREAMING-AWS4-HMAC-SHA256-PAYLOAD",
        "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER",
    }
)
CONTENT_HASH = "HTTP_X_AMZ_CONTENT_SHA256"

_CREDENTIAL = re.compile(r"([^/,\s]+)/(\d{8})/([^/,\s]+)/([^/,\s]+)/aws4_request")
_HEADER = re.compile(
    rf"AWS4-HMAC-SHA256\s+Credential={_CREDENTIAL.pattern},\s*SignedHeaders=([^,\s]+),\s*Signature=([0-9a-f]+)\s*"
)
_SECONDS = re.compile("[0-9]{1,15}")
_TIME = "%Y%m%dT%H%M%SZ"

Environ = dict[str, Any]


def read(environ: Environ) -> Signature:
    """Return the signature; raise ApiError if there is none that the yard could check."""
    if header := environ.get("HTTP_AUTHORIZATION"):
        return _of_header(environ, header)
    query = dict(parse_qsl(environ.get("QUERY_STRING", ""), keep_blank_values=True))
    if "X-Amz-Credential" in query:
        return _of_query(query)
    if "AWSAccessKeyId" in query:
        return Signature(
            way=Way.OLD_QUERY,
            access_key_id=query["AWSAccessKeyId"],
            day="",
            region="us-east-1",  # the URL names none
            service=S3,
            signed_headers=(),
            value=query.get("Signature", ""),
            made_at=query.get("Expires", ""),
            token=query.get("x-amz-security-token", ""),
        )
    raise _unsigned("this one has no signature")


def check(environ: Environ, signature: Signature, key: Key, body: bytes) -> None:
    """Raise ApiError unless the key made this signature for this request recently.

    S3's bodies are objects: they are checked while they are read, and `body` is ignored.
    """
    _check_token(signature, key)
    _check_time(signature)
    declared = environ.get(CONTENT_HASH, "")
    if signature.service == S3:
        payload = _declared_to_s3(signature, declared)
    else:
        payload = hashlib.sha256(body).hexdigest()
        if declared and declared != payload:
            raise _mismatch(key)
    if hidden := unsigned_headers(environ, signature):
        raise ApiError(
            "AccessDenied",
            f"There were headers present in the request which were not signed: {', '.join(hidden)}",
            status=403,
        )
    expected = _EXPECTED[signature.way](environ, signature, key, payload)
    if not hmac.compare_digest(expected.encode(), signature.value.encode()):
        raise _mismatch(key)
    if signature.service == S3 and payload not in UNHASHED:
        environ["wsgi.input"] = checked(environ, payload)


def _of_header(environ: Environ, header: str) -> Signature:
    found = _HEADER.fullmatch(header)
    if not found:
        raise _unsigned("this one's signature is not Signature Version 4, or is incomplete")
    return Signature(
        way=Way.HEADER,
        access_key_id=found[1],
        day=found[2],
        region=found[3],
        service=found[4].lower(),
        signed_headers=tuple(found[5].split(";")),
        value=found[6],
        made_at=environ.get("HTTP_X_AMZ_DATE") or _from_http(environ.get("HTTP_DATE", "")),
        token=environ.get("HTTP_X_AMZ_SECURITY_TOKEN", ""),
    )


def _of_query(query: Mapping[str, str]) -> Signature:
    found = _CREDENTIAL.fullmatch(query["X-Amz-Credential"])
    if not found or found[4].lower() != S3:
        raise _unsigned("only S3 accepts a signature in the query")
    lasts = query.get("X-Amz-Expires", "")
    if not _SECONDS.fullmatch(lasts) or int(lasts) > LONGEST_PRESIGNED_S:
        raise ApiError(
            "AuthorizationQueryParametersError",
            "X-Amz-Expires must be less than a week (in seconds); that is, the given X-Amz-Expires must be "
            f"less than {LONGEST_PRESIGNED_S} seconds",
        )
    return Signature(
        way=Way.QUERY,
        access_key_id=found[1],
        day=found[2],
        region=found[3],
        service=S3,
        signed_headers=tuple(query.get("X-Amz-SignedHeaders", "").split(";")),
        value=query.get("X-Amz-Signature", ""),
        made_at=query.get("X-Amz-Date", ""),
        token=query.get("X-Amz-Security-Token", ""),
        lasts_s=int(lasts),
    )


def _from_http(date: str) -> str:
    try:
        return parsedate_to_datetime(date).astimezone(UTC).strftime(_TIME)
    except (ValueError, OverflowError):  # not a date, or an impossible year
        return ""


def _check_token(signature: Signature, key: Key) -> None:
    is_of_s3 = signature.service == S3
    if not hmac.compare_digest(signature.token.encode(), key.token.encode()):
        if is_of_s3:
            raise ApiError("InvalidToken", "The provided token is malformed or otherwise invalid.")
        message = "The security token included in the request is invalid."
        raise ApiError("InvalidClientTokenId", message, status=403)
    if key.expires_at is not None and key.expires_at < time.time():
        if is_of_s3:
            raise ApiError("ExpiredToken", "The provided token has expired.")
        raise ApiError("ExpiredToken", "The security token included in the request is expired", status=403)


def _check_time(signature: Signature) -> None:
    now = time.time()
    if signature.way is Way.OLD_QUERY:
        if not _SECONDS.fullmatch(signature.made_at) or int(signature.made_at) < now:
            raise ApiError("AccessDenied", "Request has expired", status=403)
        return
    try:
        made_at = datetime.strptime(signature.made_at, _TIME).replace(tzinfo=UTC).timestamp()
    except ValueError:
        raise _unsigned("this one's date is missing or not readable") from None
    if signature.day != signature.made_at[:8]:
        message = (
            "Date in Credential scope does not match YYYYMMDD from ISO-8601 version of date from HTTP: "
            f"'{signature.day}' != '{signature.made_at[:8]}', from '{signature.made_at}'."
        )
        raise ApiError("SignatureDoesNotMatch", message, status=403)
    if signature.lasts_s is not None and made_at + signature.lasts_s < now:
        raise ApiError("AccessDenied", "Request has expired", status=403)
    if made_at > now + LARGEST_SKEW_S or (signature.lasts_s is None and made_at < now - LARGEST_SKEW_S):
        raise _skewed(signature, made_at - now)


def _skewed(signature: Signature, ahead_s: float) -> ApiError:
    if signature.service == S3:
        message = "The difference between the request time and the current time is too large."
        return ApiError("RequestTimeTooSkewed", message, status=403)
    sign, words = ("+", "not yet current") if ahead_s > 0 else ("-", "expired")
    now = datetime.now(UTC)
    limit = now + timedelta(seconds=LARGEST_SKEW_S if ahead_s > 0 else -LARGEST_SKEW_S)
    beyond = f"still later than {limit:{_TIME}}" if ahead_s > 0 else f"now earlier than {limit:{_TIME}}"
    message = f"Signature {words}: {signature.made_at} is {beyond} ({now:{_TIME}} {sign} 15 min.)"
    return ApiError("SignatureDoesNotMatch", message, status=403)


def _declared_to_s3(signature: Signature, declared: str) -> str:
    if signature.way is not Way.HEADER and not declared:
        return UNSIGNED
    if declared in UNHASHED or re.fullmatch(r"[0-9a-f]{64}", declared):
        return declared
    raise ApiError(
        "InvalidArgument",
        f"x-amz-content-sha256 is '{declared}', but must be the body's SHA-256 or one of "
        f"{', '.join(sorted(UNHASHED))}",
    )


def _unsigned(why: str) -> ApiError:
    return ApiError(
        "MissingAuthenticationToken",
        f"the yard answers only signed requests (AWS Signature Version 4), and {why}; sign with the key of "
        "`slipway yard env`, as every SDK does",
        status=403,
    )


def _mismatch(key: Key) -> ApiError:
    hint = "" if key.token else ' Each yard has its own key: run eval "$(slipway yard env)" again.'
    return ApiError(
        "SignatureDoesNotMatch",
        "The request signature we calculated does not match the signature you provided. Check your AWS "
        f"Secret Access Key and signing method. Consult the service documentation for details.{hint}",
        status=403,
    )


# By protocol: the codes and the status of what the query protocol calls otherwise.
_IN_JSON = {
    "ExpiredToken": "ExpiredTokenException",
    "InvalidClientTokenId": "UnrecognizedClientException",
    "SignatureDoesNotMatch": "InvalidSignatureException",
}
_CODES: Mapping[str, tuple[Mapping[str, str], int]] = {
    "json": (_IN_JSON, 400),
    "rest-json": (_IN_JSON, 403),
    "rest-xml": ({"InvalidClientTokenId": "InvalidAccessKeyId"}, 403),
}


def in_protocol(refusal: ApiError, protocol: str) -> ApiError:
    """Return the refusal of a signature with the code and status that a service of this protocol gives."""
    codes, status = _CODES.get(protocol, ({}, 0))
    if refusal.code not in codes:
        return refusal
    return ApiError(codes[refusal.code], refusal.message, status=status)


# Checks a body against its hash while it is read, so that no upload is held in memory twice.


def checked(environ: dict[str, Any], sha256: str) -> IO[bytes]:
    """Return the request's body; reading it to its end raises ApiError unless it has this hash."""
    has_end = bool(environ.get("wsgi.input_terminated"))  # chunked: the stream has an end but no length
    length = None if has_end else int(environ.get("CONTENT_LENGTH") or 0)
    stream = _Checked(environ["wsgi.input"], sha256, length)
    if length == 0:
        stream.judge()
    return stream  # type: ignore[return-value]  # a raw stream has all that WSGI needs


class _Checked(io.RawIOBase):
    def __init__(self, source: IO[bytes], sha256: str, length: int | None) -> None:
        self._source, self._wanted, self._left = source, sha256, length
        self._hash = hashlib.sha256()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        read = self._source.readinto(buffer)  # type: ignore[attr-defined]  # both of werkzeug's streams have it
        self._hash.update(memoryview(buffer)[:read])
        if self._left is not None:
            self._left -= read
        if self._left == 0 or not read:
            self.judge()
        return int(read)

    def judge(self) -> None:
        if not hmac.compare_digest(self._hash.hexdigest(), self._wanted):
            raise ApiError(
                "XAmzContentSHA256Mismatch",
                "The provided 'x-amz-content-sha256' header does not match what was computed.",
            )


# Computes the signature that a request should have: botocore's own signers sign the request as it arrived.
_PLAIN_HEADERS = frozenset({"content-type", "content-length"})  # WSGI's variables for these have no HTTP_
_OLD_HEADERS = frozenset({"content-md5", "content-type"})


class Way(Enum):
    HEADER = "header"
    QUERY = "query"
    OLD_QUERY = "query, version 2"


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """A signature as the request states it, not checked yet."""

    way: Way
    access_key_id: str
    day: str
    region: str
    service: str  # the signing name
    signed_headers: tuple[str, ...]
    value: str = field(repr=False)
    made_at: str  # for version 2: when it ends, in seconds since the epoch
    token: str = field(repr=False)
    lasts_s: int | None = None  # only for a presigned URL


def unsigned_headers(environ: Environ, signature: Signature) -> list[str]:
    """Return the headers that AWS requires to be signed but are not. Version 2 signs them all."""
    if signature.way is Way.OLD_QUERY:
        return []
    signed = {_variable(name) for name in signature.signed_headers}
    wanted = ["HTTP_HOST", *(name for name in environ if name.startswith("HTTP_X_AMZ_"))]
    return [name[5:].lower().replace("_", "-") for name in wanted if name not in signed]


class _SigV4(SigV4Auth):  # type: ignore[misc]  # botocore has no types
    """Signs exactly the given headers; botocore would leave some of them out."""

    def headers_to_sign(self, request: AWSRequest) -> HTTPHeaders:
        return request.headers


class _S3SigV4(S3SigV4Auth):  # type: ignore[misc]  # botocore has no types
    def headers_to_sign(self, request: AWSRequest) -> HTTPHeaders:
        return request.headers

    def _normalize_url_path(self, path: str) -> str:
        return quote(unquote_to_bytes(path), safe="/~")


class _SigV2(HmacV1QueryAuth):  # type: ignore[misc]  # botocore has no types
    def _get_date(self) -> str:
        return str(self._expires)


def _version_4(environ: Environ, signature: Signature, key: Key, payload: str) -> str:
    signer = _S3SigV4 if signature.service == "s3" else _SigV4
    signing = signer(Credentials(key.access_key_id, key.secret), signature.service, signature.region)
    signing.payload = lambda _request: payload
    # Decoded parameters: a client may send another spelling than it signs (+ for %20).
    pairs = parse_qsl(urlsplit(_url(environ)).query, keep_blank_values=True)
    parameters = [(name, value) for name, value in pairs if name != "X-Amz-Signature"]
    request = AWSRequest(method=environ["REQUEST_METHOD"], url=_url(environ), params=parameters)
    for name in signature.signed_headers:
        request.headers[name] = _text(environ.get(_variable(name), ""))
    request.context["timestamp"] = signature.made_at
    to_sign = signing.string_to_sign(request, signing.canonical_request(request))
    return str(signing.signature(to_sign, request))


def _version_2(environ: Environ, signature: Signature, key: Key, _payload: str) -> str:
    query = dict(parse_qsl(environ.get("QUERY_STRING", ""), keep_blank_values=True))
    headers = HTTPHeaders()
    sent = {
        name[5:].lower().replace("_", "-"): value for name, value in environ.items() if name[:5] == "HTTP_"
    }
    for name, value in {**sent, "content-type": environ.get("CONTENT_TYPE", ""), **query}.items():
        if name in _OLD_HEADERS or name.startswith("x-amz-"):
            headers[name] = value
    bucket = environ["HTTP_HOST"].partition(".localhost")
    path = f"/{bucket[0]}{urlsplit(_url(environ)).path}" if bucket[1] else None
    signing = _SigV2(Credentials(key.access_key_id, key.secret), signature.made_at)
    return str(
        signing.get_signature(environ["REQUEST_METHOD"], urlsplit(_url(environ)), headers, auth_path=path)
    )


# Way of signing -> the key's signature of a request; the payload is the body's hash, or S3's value for none.
_EXPECTED: Mapping[Way, Callable[[Environ, Signature, Key, str], str]] = {
    Way.HEADER: _version_4,
    Way.QUERY: _version_4,
    Way.OLD_QUERY: _version_2,
}


def _url(environ: Environ) -> str:
    """Return the URL as it was sent; WSGI's own path is already decoded."""
    raw = _text(environ["RAW_URI"])
    # Programs send proxies an absolute URL.
    target = raw if raw.startswith("/") else "/" + raw.split("/", 3)[-1]
    return f"http://{environ['HTTP_HOST']}{target}"


def _variable(name: str) -> str:
    variable = name.upper().replace("-", "_")
    return variable if name.lower() in _PLAIN_HEADERS else f"HTTP_{variable}"


def _text(raw: str) -> str:
    """Decode one of WSGI's strings, which hold bytes as latin-1."""
    return raw.encode("latin-1").decode("utf-8", errors="replace")
