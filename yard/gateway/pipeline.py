"""The steps that an AWS request goes through in the yard. Each either answers it or lets it pass."""

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
]  # arguments: the operation's parameters, the region


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayServices:
    """The services' contributions. The gateway may not import services, so its caller passes this in."""

    answerer_of: Callable[[str, str], Answerer | None]  # None: moto answers
    prepare: Callable[[str, str], None]  # makes what a service has in a region before any call (seed data)
    contracts: Mapping[str, Contract]  # by service: what it refuses although its model allows it
    refuse: Callable[[Call], None]  # raises AWS's refusal of a call that names an absent resource
    after_answer: Mapping[str, tuple[Callable[[Call, Reply], None], ...]]  # by service


_regions_used: set[tuple[str, str]] = set()


def regions_used(service: str) -> set[str]:
    """Return the regions in which this service was called since the start."""
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
        key = authorization.as_caller(environ, _signer(environ, call))
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
    except Exception as error:  # a bug of the yard is answered, as AWS would
        log.exception("%s:%s crashed", call.service, call.operation)
        return respond(call, moto_adapter.crashed(call, error))
    reply = _serve(environ, call, key, services)
    is_lost = struck is not None and struck.kind is faults.FaultKind.DROP_RESPONSE
    if is_chaotic:
        is_lost |= chaos_gate.leave(environ, call, reply)
    for act in services.after_answer.get(call.service, ()):
        act(call, reply)
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
    except Exception as error:  # a bug of the yard is answered, as AWS would
        log.exception("%s:%s crashed", call.service, call.operation)
        return respond(call, moto_adapter.crashed(call, error))
    reply = moto_adapter.answer(environ, call)
    if call.service != "sts":
        return reply
    return replace(reply, body=keys.reissued(reply.body, authorization.session_of_answer(call, key)))


def _signer(environ: dict[str, Any], call: Call) -> keys.Key:
    """Return the key that signed the call; raise ApiError for a signature that AWS would not accept."""
    try:
        key = keys.find(call.signature.access_key_id)
        signatures.check(environ, call.signature, key, call.body)
        if call.region not in REGIONS:
            message = f"Credential should be scoped to a valid region, not {call.region[:60]!r}."
            raise ApiError("SignatureDoesNotMatch", message, status=403)
    except ApiError as error:
        raise signatures.in_protocol(error, call.protocol) from error
    return key


def _hang_up(environ: dict[str, Any]) -> None:
    """Close the connection without an answer, although the request was carried out."""
    connection: socket.socket = environ["werkzeug.socket"]
    connection.shutdown(socket.SHUT_RDWR)
    raise ConnectionResetError("a fault dropped this response")
