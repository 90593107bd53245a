"""The signature that a request should have: botocore's own signers, given the request as it arrived."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any
from urllib.parse import parse_qsl, quote, unquote_to_bytes, urlsplit

from botocore.auth import HmacV1QueryAuth, S3SigV4Auth, SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.compat import HTTPHeaders
from botocore.credentials import Credentials

from slipway.yard.permissions.keys import Key

UNSIGNED = "UNSIGNED-PAYLOAD"
_PLAIN_HEADERS = frozenset({"content-type", "content-length"})  # which WSGI names without HTTP_
_AMZ = "HTTP_X_AMZ_"
_OLD_HEADERS = frozenset({"content-md5", "content-type"})

Environ = dict[str, Any]


class Way(Enum):
    HEADER = "header"
    QUERY = "query"
    OLD_QUERY = "query, version 2"


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """A signature as the request states it; nothing of it is known to be true."""

    way: Way
    access_key_id: str
    day: str
    region: str
    service: str  # the signing name
    signed_headers: tuple[str, ...]
    value: str = field(repr=False)
    made_at: str  # version 2 says when it ends instead, in seconds of the epoch
    token: str = field(repr=False)
    lasts_s: int | None = None  # of a presigned URL


def expected(environ: Environ, signature: Signature, key: Key, payload: str) -> str:
    """The signature of this request by this key; `payload` is the hash of the body, or S3's word for none."""
    return _EXPECTED[signature.way](environ, signature, key, payload)


def unsigned_headers(environ: Environ, signature: Signature) -> list[str]:
    """The names of headers that AWS wants signed and that are not. Version 2 signs them all."""
    if signature.way is Way.OLD_QUERY:
        return []
    signed = {_variable(name) for name in signature.signed_headers}
    wanted = ["HTTP_HOST", *(name for name in environ if name.startswith(_AMZ))]
    return [name[5:].lower().replace("_", "-") for name in wanted if name not in signed]


class _SigV4(SigV4Auth):  # type: ignore[misc]  # botocore has no types
    """Signs the headers that it is given, as AWS does; botocore leaves some of them out."""

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
    request = AWSRequest(method=environ["REQUEST_METHOD"], url=_url(environ), params=_parameters(environ))
    for name in signature.signed_headers:
        request.headers[name] = _text(environ.get(_variable(name), ""))
    request.context["timestamp"] = signature.made_at
    to_sign = signing.string_to_sign(request, signing.canonical_request(request))
    return str(signing.signature(to_sign, request))


def _version_2(environ: Environ, signature: Signature, key: Key, _payload: str) -> str:
    query = dict(parse_qsl(environ.get("QUERY_STRING", ""), keep_blank_values=True))
    headers = HTTPHeaders()
    for name, value in {**_old_headers(environ), **query}.items():
        if name in _OLD_HEADERS or name.startswith("x-amz-"):
            headers[name] = value
    bucket = environ["HTTP_HOST"].partition(".localhost")
    path = f"/{bucket[0]}{urlsplit(_url(environ)).path}" if bucket[1] else None
    signing = _SigV2(Credentials(key.access_key_id, key.secret), signature.made_at)
    return str(
        signing.get_signature(environ["REQUEST_METHOD"], urlsplit(_url(environ)), headers, auth_path=path)
    )


_EXPECTED: Mapping[Way, Callable[[Environ, Signature, Key, str], str]] = {
    Way.HEADER: _version_4,
    Way.QUERY: _version_4,
    Way.OLD_QUERY: _version_2,
}


def _url(environ: Environ) -> str:
    """Return the URL as it was sent: WSGI's own path is decoded already."""
    return f"http://{environ['HTTP_HOST']}{_target(environ)}"


def _target(environ: Environ) -> str:
    raw = _text(environ["RAW_URI"])
    return raw if raw.startswith("/") else "/" + raw.split("/", 3)[-1]  # the form that proxies are sent


def _parameters(environ: Environ) -> list[tuple[str, str]]:
    """Decoded, for a client may send what it signs in another spelling (+ for %20)."""
    pairs = parse_qsl(urlsplit(_url(environ)).query, keep_blank_values=True)
    return [(name, value) for name, value in pairs if name != "X-Amz-Signature"]


def _variable(name: str) -> str:
    variable = name.upper().replace("-", "_")
    return variable if name.lower() in _PLAIN_HEADERS else f"HTTP_{variable}"


def _old_headers(environ: Environ) -> dict[str, str]:
    found = {
        name[5:].lower().replace("_", "-"): value for name, value in environ.items() if name[:5] == "HTTP_"
    }
    return {**found, "content-type": environ.get("CONTENT_TYPE", "")}


def _text(raw: str) -> str:
    """WSGI's strings are bytes in disguise."""
    return raw.encode("latin-1").decode("utf-8", errors="replace")
