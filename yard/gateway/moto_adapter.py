"""moto's services behind one function, made to say what they cannot do in the service's own protocol.

moto answers what it lacks with an HTML page and a 500, which SDKs repeat for a minute and then misread.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterable
from functools import lru_cache
from types import TracebackType
from typing import Any

from slipway.yard.errors import ApiError, not_emulated
from slipway.yard.gateway import moto_lookups, moto_snapshots
from slipway.yard.gateway.default_groups import admit_own_members
from slipway.yard.gateway.protocols import STREAMED, Call, Reply, respond

log = logging.getLogger(__name__)

# SDKs repeat a 500 and not a 501. A crash would only happen again, on top of what the first left half done.
STATUS_OF_A_CRASH = 501

Headers = list[tuple[str, str]]


def configure() -> None:
    """Set moto up before the first request: no containers, AWS's policies and default groups, no access logs.

    S3 delivers access logs hours later; moto would at once, into a bucket that then could not be deleted.
    Bucket policies are judged at the gate: moto reads no Condition, and would lock everybody out.
    """
    from moto.core.config import default_user_config
    from moto.iam.access_control import PermissionResult
    from moto.s3.models import FakeBucket, S3Backend

    default_user_config["batch"] = {"use_docker": False}
    default_user_config["lambda"] = {"use_docker": False}
    default_user_config["iam"] = {"load_aws_managed_policies": True}
    S3Backend.log_incoming_request = lambda *_: None
    moto_lookups.keep()
    admit_own_members()
    FakeBucket.get_permission = lambda *_: PermissionResult.NEUTRAL


def reset() -> None:
    from moto.moto_api._internal.models import moto_api_backend

    moto_snapshots.keep()
    moto_api_backend.reset()


def answer(environ: dict[str, Any], call: Call) -> Reply:
    """moto's answer; what it lacks and what it trips over as one clean error."""
    try:
        if not _has_service(environ):
            return respond(call, not_emulated(call.service, call.operation))
        reply = _run(environ)
    except NotImplementedError as error:
        detail = "" if "action has not been implemented" in str(error) else str(error)
        return respond(call, not_emulated(call.service, call.operation, detail))
    except ApiError as error:  # the body is not the one that was signed
        return respond(call, error)
    except Exception as error:
        log.exception("%s:%s crashed", call.service, call.operation)
        return respond(call, crashed(call, error))
    return respond(call, problem) if (problem := _page_as_error(call, reply)) else reply


def crashed(call: Call, error: Exception) -> ApiError:
    return ApiError(
        "InternalFailure",
        f"the yard failed in {call.service}:{call.operation}: {type(error).__name__}: {error}; "
        "the traceback is in `slipway yard logs`",
        status=STATUS_OF_A_CRASH,
    )


def _page_as_error(call: Call, reply: Reply) -> ApiError | None:
    """Pages for people and empty refusals: AWS sends neither."""
    if call.service in STREAMED:
        return None
    is_page = (
        dict(reply.headers).get("Content-Type", "").startswith("text/html") and b"<html" in reply.body.lower()
    )
    if reply.status in (404, 405, 501) and (is_page or not reply.body):
        return not_emulated(call.service, call.operation)
    if reply.status >= 500 and is_page:
        return crashed(call, RuntimeError(reply.body[:200].decode(errors="replace")))
    return None


def _has_service(environ: dict[str, Any]) -> bool:
    host = _application().infer_service_region_host(environ, environ.get("PATH_INFO", ""))
    return (
        host is None or _application().get_backend_for_host(host) is not None
    )  # None: a presigned URL, so S3


def _run(environ: dict[str, Any]) -> Reply:
    started: list[tuple[str, Headers]] = []

    def start_response(
        status: str,
        headers: Headers,
        exc_info: tuple[type[BaseException], BaseException, TracebackType] | None = None,
    ) -> Callable[[bytes], object]:
        started.append((status, headers))
        return sys.stderr.buffer.write  # WSGI's old second way to send a body; Flask does not use it

    chunks: Iterable[bytes] = _application()(environ, start_response)
    body = b"".join(chunks)
    status, headers = started[-1]
    return Reply(status=int(status.split()[0]), headers=tuple(headers), body=body)


@lru_cache(maxsize=1)
def _application() -> Any:
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app

    return DomainDispatcherApplication(create_backend_app)
