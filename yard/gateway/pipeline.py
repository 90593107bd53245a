"""What happens to an AWS request in the yard, in order. Every step either answers it or lets it through."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from slipway.jobs.words.names import REGIONS
from slipway.yard.chaos import conditions
from slipway.yard.errors import ApiError, not_emulated
from slipway.yard.gateway import (
    authorization,
    chaos_gate,
    faults,
    moto_adapter,
    reach,
    signatures,
    validation,
)
from slipway.yard.gateway.protocols import Call, Reply, parse, respond, respond_unparsed
from slipway.yard.gateway.validation import Contract
from slipway.yard.machines import api_proxy
from slipway.yard.permissions import keys

log = logging.getLogger(__name__)
Answerer = Callable[
    [Mapping[str, Any], str], Mapping[str, Any]
]  # of an operation's parameters and the region


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayServices:
    """Hold what the services bring to a request. They are above the gateway, so its caller names them."""

    answerer_of: Callable[[str, str], Answerer | None]  # what serves an operation; None: moto does
    prepare: Callable[[str, str], None]  # makes what a service is expected to show in a region
    contracts: Mapping[str, Contract]  # what a service refuses beside its model
    refuse: Callable[[Call], None]  # raises what AWS answers to a call that names what is not there
    heard: Mapping[str, tuple[Callable[[Call, Reply], None], ...]]  # who hears of answered calls to a service


_regions_used: set[tuple[str, str]] = set()


def regions_used(service: str) -> set[str]:
    """The regions in which this service was called since the start."""
    return {region for used, region in _regions_used if used == service}


def answer(environ: dict[str, Any], services: GatewayServices) -> Reply:
    try:
        call = parse(environ)
    except ApiError as error:
        return respond_unparsed(error)
    subnet = api_proxy.subnet_of(int(environ.get("REMOTE_PORT") or 0))
    if subnet and (why := reach.refusal(subnet, call.service, call.region)):
        log.warning("%s:%s never arrives: %s", call.service, call.operation, why)
        _hang_up(environ)
    _regions_used.add((call.service, call.region))
    reply = _answer(environ, call, services)
    log.info("%s:%s %s -> %s", call.service, call.operation, call.region, reply.status)
    return reply


def _answer(environ: dict[str, Any], call: Call, services: GatewayServices) -> Reply:
    try:
        key = keys.find(call.signature.access_key_id)
        signatures.check(environ, call.signature, key, call.body)
        key = authorization.as_caller(environ, key)
        _refuse_unknown_region(call)
        if not call.operation:
            return respond(call, not_emulated(call.service, call.operation))
        if is_chaotic := conditions.are_any_on():
            chaos_gate.enter(environ, call)
        services.prepare(call.service, call.region)
        authorization.check(environ, call, key)
        struck = faults.next_for(call.service, call.operation)
        if struck and (scripted := faults.scripted_result(struck, call.service)) is not None:
            return respond(call, scripted)
        validation.check(call, services.contracts)
        services.refuse(call)
    except ApiError as error:
        return respond(call, error)
    except Exception as error:
        log.exception("%s:%s crashed", call.service, call.operation)
        return respond(call, moto_adapter.crashed(call, error))
    reply = _serve(environ, call, key, services)
    is_lost = struck is not None and struck.kind is faults.FaultKind.DROP_RESPONSE
    if is_chaotic:
        is_lost |= chaos_gate.leave(environ, call, reply)
    for hear in services.heard.get(call.service, ()):
        hear(call, reply)
    if is_lost:
        _hang_up(environ)
    return reply


def _serve(environ: dict[str, Any], call: Call, key: keys.Key, services: GatewayServices) -> Reply:
    try:
        if key.session and (call.service, call.operation) == ("sts", "GetCallerIdentity"):
            return respond(call, authorization.identity(key.session))
        if serve := services.answerer_of(call.service, call.operation):
            return respond(call, serve(call.parameters or {}, call.region))
    except ApiError as error:
        return respond(call, error)
    except Exception as error:
        log.exception("%s:%s crashed", call.service, call.operation)
        return respond(call, moto_adapter.crashed(call, error))
    reply = moto_adapter.answer(environ, call)
    if call.service != "sts":
        return reply
    return replace(reply, body=keys.reissued(reply.body, authorization.session_of_answer(call, key)))


def _refuse_unknown_region(call: Call) -> None:
    """AWS has no endpoint there, and its others refuse such a scope in these words."""
    if call.region not in REGIONS:
        raise ApiError(
            "InvalidSignatureException",
            f"Credential should be scoped to a valid region, and AWS has no region {call.region[:60]!r}.",
            status=403,
        )


def _hang_up(environ: dict[str, Any]) -> None:
    """The request was carried out; its caller never learns."""
    connection: socket.socket = environ["werkzeug.socket"]
    connection.shutdown(socket.SHUT_RDWR)
    raise ConnectionResetError("a fault dropped this response")
