"""Calls moto's services; for what moto lacks it answers an error in the service's own protocol.

moto itself answers with an HTML page and a 500, which SDKs retry for a minute and then misread. Patches of
moto are here, too: default security groups, and caches that make calls and resets fast.
"""

from __future__ import annotations

import logging
import sys
from collections import UserDict
from collections.abc import Callable, Iterable
from functools import cached_property, lru_cache
from operator import attrgetter
from types import SimpleNamespace, TracebackType
from typing import Any

from slipway.yard.endpoint import ACCOUNT
from slipway.yard.errors import ApiError, not_emulated
from slipway.yard.gateway.protocols import STREAMED, Call, Reply, respond

log = logging.getLogger(__name__)

# SDKs retry a 500 but not a 501. A crash would only repeat, on top of what the first call left half done.
STATUS_OF_A_CRASH = 501

Headers = list[tuple[str, str]]


def configure() -> None:
    """Set moto up before the first request: no containers, AWS's policies and default groups, no access logs.

    S3 delivers access logs hours later; moto would do so at once, into a bucket that then could not be
    deleted. authorization.py judges bucket policies: moto ignores Conditions, and would deny everybody.
    """
    from moto.core.config import default_user_config
    from moto.iam.access_control import PermissionResult
    from moto.s3.models import FakeBucket, S3Backend

    default_user_config["batch"] = {"use_docker": False}
    default_user_config["lambda"] = {"use_docker": False}
    default_user_config["iam"] = {"load_aws_managed_policies": True}
    S3Backend.log_incoming_request = lambda *_: None
    keep_lookups()
    admit_own_members()
    FakeBucket.get_permission = lambda *_: PermissionResult.NEUTRAL


def reset() -> None:
    from moto.moto_api._internal.models import moto_api_backend

    keep_snapshots()
    moto_api_backend.reset()


def answer(environ: dict[str, Any], call: Call) -> Reply:
    """Return moto's answer; for a missing feature or a crash, an error in the service's protocol."""
    try:
        host = _application().infer_service_region_host(environ, environ.get("PATH_INFO", ""))
        # Without a host it is a presigned URL, so S3.
        if host is not None and _application().get_backend_for_host(host) is None:
            return respond(call, not_emulated(call.service, call.operation))
        reply = _run(environ)
    except NotImplementedError as error:
        detail = "" if "action has not been implemented" in str(error) else str(error)
        return respond(call, not_emulated(call.service, call.operation, detail))
    except ApiError as error:  # the body does not match its signed hash
        return respond(call, error)
    except Exception as error:  # a bug of the yard or of moto is answered, as AWS would
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
    """Return an error in place of an HTML page or an empty refusal: AWS sends neither."""
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


def _run(environ: dict[str, Any]) -> Reply:
    started: list[tuple[str, Headers]] = []

    def start_response(
        status: str,
        headers: Headers,
        exc_info: tuple[type[BaseException], BaseException, TracebackType] | None = None,
    ) -> Callable[[bytes], object]:
        started.append((status, headers))
        return sys.stderr.buffer.write  # WSGI's legacy write(), which Flask does not use

    chunks: Iterable[bytes] = _application()(environ, start_response)
    body = b"".join(chunks)
    status, headers = started[-1]
    return Reply(status=int(status.split()[0]), headers=tuple(headers), body=body)


@lru_cache(maxsize=1)
def _application() -> Any:
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app

    return DomainDispatcherApplication(create_backend_app)


# Default security groups: moto's lack the rule that admits traffic between members.


def admit_own_members() -> None:
    """Add that rule to every default group that moto makes from now on."""
    from moto.ec2.models.security_groups import SecurityGroupBackend

    make = SecurityGroupBackend.create_security_group

    def make_and_admit(backend: Any, *args: Any, **kwargs: Any) -> Any:
        group = make(backend, *args, **kwargs)
        if group.is_default:
            backend.authorize_security_group_ingress(
                group.id,
                "-1",
                None,
                None,
                [],
                source_groups=[{"GroupId": group.id, "OwnerId": group.owner_id}],
                vpc_id=group.vpc_id,
            )
        return group

    if make.__name__ != make_and_admit.__name__:  # patch only once
        SecurityGroupBackend.create_security_group = make_and_admit


# Caches of what moto computes at every call although it never changes here. These took most of a call's time:
# the caller's account (moto looks into all partitions, and makes AWS's 1400 policies for each), the list of
# services, and the operations of each.


def keep_lookups() -> None:
    """Patch moto to compute these once; the yard has only one account."""
    from moto import backends
    from moto.core import responses
    from moto.iam import models

    modules = frozenset(backends.list_of_moto_modules())
    backends.list_of_moto_modules = lambda: modules
    responses.method_names_from_class = lru_cache(maxsize=None)(responses.method_names_from_class)
    models.get_account_id_from = lambda _access_key: ACCOUNT


# AWS's own policies and AMIs, kept across resets. At every reset moto makes 1400 policies and 1300 images
# again for every region that was used: 0.3 s in which the yard does not answer. Here they are made once and
# copied into new backends; images only when a call reads them.


def keep_snapshots() -> None:
    """Keep the policies and images of services that were used; moto has not imported the others."""
    from moto.core.base_backend import BaseBackend

    BaseBackend.reset = lambda _: None  # reset() forgets all backends anyway
    if "moto.iam.models" in sys.modules:
        _keep_policies()
    if "moto.ec2.models" in sys.modules:
        _keep_images()


@lru_cache(maxsize=1)
def _keep_policies() -> None:
    from moto.iam.models import IAMBackend

    original = IAMBackend._init_aws_policies

    @lru_cache(maxsize=8)
    def read(account: str, region: str) -> list[Any]:
        policies: list[Any] = original(SimpleNamespace(account_id=account, region_name=region))
        return policies

    IAMBackend._init_aws_policies = lambda self: [
        _again(policy) for policy in read(self.account_id, self.region_name)
    ]


@lru_cache(maxsize=1)
def _keep_images() -> None:
    from moto.ec2.models.amis import AmiBackend

    original, kept = AmiBackend._load_amis, {}

    def load(self: Any) -> None:
        place = (self.account_id, self.region_name)
        if place not in kept:
            original(self)
            kept[place] = [_image_of(None, image) for image in self.amis.values()]
            return
        images = lru_cache(maxsize=1)(lambda: [_image_of(self, image) for image in kept[place]])
        snapshot = attrgetter("ebs_snapshot")
        self.amis = _FilledWhenRead(lambda: {image.id: image for image in images()})
        self.snapshots = _FilledWhenRead(lambda: {stored.id: stored for stored in map(snapshot, images())})

    AmiBackend._load_amis = load


class _FilledWhenRead(UserDict[str, Any]):
    """A dictionary that copies AWS's own items when it is first read, since few calls read it."""

    def __init__(self, brought: Callable[[], dict[str, Any]]) -> None:
        self._put: dict[str, Any] = {}
        self._brought = brought

    @cached_property
    def data(self) -> dict[str, Any]:  # type: ignore[override]  # UserDict reads everything from here
        return self._brought() | self._put

    def __setitem__(self, key: str, item: Any) -> None:
        (self.data if "data" in vars(self) else self._put)[key] = item

    def copy(self) -> Any:
        return {**self.data}


def _image_of(backend: Any, image: Any) -> Any:
    snapshot = _again(
        image.ebs_snapshot,
        ec2_backend=backend,
        create_volume_permission_groups=set(),
        create_volume_permission_userids=set(),
    )
    return _again(
        image,
        ec2_backend=backend,
        ebs_snapshot=snapshot,
        launch_permissions=[*image.launch_permissions],
        product_codes={*image.product_codes},
    )


def _again(one: Any, **changes: object) -> Any:
    """Return a copy, made without moto's own __new__, which keeps every object that it makes."""
    fresh = object.__new__(type(one))
    fresh.__dict__ = {**one.__dict__, **changes}
    return fresh
