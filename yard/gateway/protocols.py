"""AWS's wire protocols: turns a request into a Call, and a result or an ApiError into a Reply.

A service whose signing name differs from its own name needs a line in SIGNED_AS. moto's parsers and
serialisers do the work; they are not public API, so pyproject.toml pins moto's exact version.
"""

from __future__ import annotations

import io
import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import UnknownServiceError
from moto.core.parse import PROTOCOL_PARSERS
from moto.core.request import Request, determine_request_protocol
from moto.core.routing import get_service_router
from moto.core.serialize import SerializationContext, get_serializer_class
from moto.core.utils import get_service_model
from werkzeug.exceptions import HTTPException

from slipway.yard.errors import ApiError
from slipway.yard.gateway import signatures
from slipway.yard.gateway.signatures import Signature

Environ = dict[str, Any]

# Signing name -> botocore's names of the services that sign with it, in the order to try them.
SIGNED_AS: Mapping[str, tuple[str, ...]] = {
    "apigateway": ("apigateway", "apigatewayv2"),
    "cloudcontrolapi": ("cloudcontrol",),
    "dynamodb": ("dynamodb", "dynamodbstreams"),
    "elasticfilesystem": ("efs",),
    "elasticloadbalancing": ("elbv2", "elb"),
    "elasticmapreduce": ("emr",),
    "es": ("opensearch", "es"),
    "monitoring": ("cloudwatch",),
    "s3": ("s3control", "s3"),  # s3 accepts any path, so s3control's are tried first
    "sagemaker": ("sagemaker", "sagemaker-runtime", "sagemaker-metrics", "sagemaker-featurestore-runtime"),
    "servicequotas": ("service-quotas",),
    "ses": ("sesv2", "ses"),
    "sso": ("sso-admin",),
    "states": ("stepfunctions",),
    "tagging": ("resourcegroupstaggingapi",),
}
# The bodies of these are objects, not parameters; reading them here would hold uploads in memory twice.
STREAMED = frozenset({"s3", "s3control"})

_Routed = tuple[str, str, Any, Mapping[str, Any] | None]  # service, protocol, model, parameters


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request. An unknown `operation` is ""; `parameters` is None if they cannot be read."""

    service: str
    region: str
    signature: Signature  # not checked yet
    operation: str
    parameters: Mapping[str, Any] | None
    body: bytes
    protocol: str
    model: Any  # botocore's model of the operation; if it is unknown, of any of the service's
    request_id: str


def parse(environ: Environ) -> Call:
    """Return the call; raise ApiError if even its service is unknown. The body stays readable."""
    signature = signatures.read(environ)
    scope = signature.service
    body = b"" if scope in STREAMED else _buffered(environ)
    candidates = [name for name in SIGNED_AS.get(scope, (scope,)) if _is_known(name)]
    if not candidates:
        raise ApiError(
            "UnknownService", f"there is no AWS service '{scope}': sign for one that AWS has", status=501
        )
    routed = next(filter(None, (_route(name, environ, body) for name in candidates)), None)
    service, protocol, model, parameters = routed or _unrouted(candidates[0])
    return Call(
        service=service,
        region=signature.region,
        signature=signature,
        operation=model.name if routed else "",
        parameters=parameters,
        body=body,
        protocol=protocol,
        model=model,
        request_id=str(uuid.uuid4()),
    )


def operation_of(service: str, environ: Environ) -> str:
    """Return the operation for this method, path and query; "" if the service has none."""
    routed = _route(service, environ, b"")
    return str(routed[2].name) if routed else ""


def respond(call: Call, result: Mapping[str, Any] | ApiError) -> Reply:
    """Return the result or the error in the protocol of the call."""
    serializer = get_serializer_class(call.service, call.protocol)(
        call.model, SerializationContext(call.request_id)
    )
    answer = serializer.serialize(result)
    body = answer["body"]
    status = _status_in(call.model, result) or int(answer["status_code"])
    if isinstance(result, ApiError) and result.status != 400:
        status = result.status
    headers = {name: str(value) for name, value in answer["headers"].items()}
    headers["x-amzn-RequestId"] = call.request_id
    return Reply(
        status=status,
        headers=tuple(headers.items()),
        body=body.encode() if isinstance(body, str) else bytes(body),
    )


def _status_in(model: Any, result: Mapping[str, Any] | ApiError) -> int:
    """Return the status that a member of the result holds, as for Lambda's Invoke; 0 if there is none."""
    if isinstance(result, ApiError) or model.output_shape is None:
        return 0
    members = model.output_shape.members.items()
    named = [name for name, shape in members if shape.serialization.get("location") == "statusCode"]
    return int(result.get(named[0], 0)) if named else 0


def respond_unparsed(error: ApiError) -> Reply:
    """Answer a request whose service is unknown; every SDK reads this shape at least as text."""
    body = json.dumps({"__type": error.code, "message": error.message}).encode()
    headers = {"Content-Type": "application/x-amz-json-1.1", "x-amzn-ErrorType": error.code}
    return Reply(status=error.status, headers=tuple(headers.items()), body=body)


def _buffered(environ: Environ) -> bytes:
    length = environ.get("CONTENT_LENGTH")
    if environ.get("wsgi.input_terminated"):  # chunked: the stream has an end but no length
        body = bytes(environ["wsgi.input"].read())
    else:
        body = bytes(environ["wsgi.input"].read(int(length or 0)))
    environ["wsgi.input"] = io.BytesIO(body)
    environ["CONTENT_LENGTH"] = str(len(body))
    environ.pop("HTTP_TRANSFER_ENCODING", None)
    return body


def _is_known(service: str) -> bool:
    try:
        get_service_model(service)
    except UnknownServiceError:
        return False
    return True


def _route(service: str, environ: Environ, body: bytes) -> _Routed | None:
    # A stream of its own: a form can be read only once, and moto reads it later.
    request = Request({**environ, "wsgi.input": io.BytesIO(body)})
    try:
        protocol = determine_request_protocol(get_service_model(service), request.content_type)
        model, path_parameters = get_service_router(service).match(request)
    except (HTTPException, NotImplementedError):
        return None
    parameters = None if service in STREAMED else _parameters(protocol, model, path_parameters, request)
    return service, protocol, model, parameters


def _unrouted(service: str) -> _Routed:
    """Return any operation of the service: its model will do to serialise an error."""
    service_model = get_service_model(service)
    protocol = str(service_model.protocol)
    model = service_model.operation_model(service_model.operation_names[0])
    return service, protocol if protocol in PROTOCOL_PARSERS else "json", model, None


def _parameters(
    protocol: str, model: Any, path_parameters: dict[str, Any], request: Any
) -> Mapping[str, Any] | None:
    raw = {
        "method": request.method,
        "values": request.values,
        "headers": request.headers,
        "body": request.get_data() if protocol not in ("query", "ec2") else b"",
        "url_path": request.path,
        "url_params": path_parameters,
    }
    try:
        parsed: Mapping[str, Any] | None = PROTOCOL_PARSERS[protocol](model).parse(raw)
    except Exception:  # noqa: BLE001 - what the parser raises has no common type
        return None
    if parsed is None:  # the body is JSON's null
        return None
    return {name: value for name, value in parsed.items() if value is not None}
