"""Judges a call by the role whose key signed it. The yard's own key has an administrator's permissions."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qsl, unquote
from xml.etree import ElementTree

from slipway.yard.endpoint import ACCESS_KEY_ID, ACCOUNT, CALLER_HEADER
from slipway.yard.errors import ApiError
from slipway.yard.gateway.protocols import Call, operation_of
from slipway.yard.permissions import deployed, judging
from slipway.yard.permissions.calls.asked import AskedCall
from slipway.yard.permissions.keys import Key, RoleSession

Environ = dict[str, Any]

S3 = "s3"
ADMINISTRATOR = f"arn:aws:sts::{ACCOUNT}:user/moto"  # STS's name here for the holder of the yard's own key
_ASSUMES = frozenset({"AssumeRole", "AssumeRoleWithWebIdentity", "AssumeRoleWithSAML"})
_CALLER = "HTTP_" + CALLER_HEADER.upper().replace("-", "_")  # set on calls of the yard's own services
_LARGEST_LIST = 1 << 21  # bytes; DeleteObjects takes up to 1,000 keys
_XML = "{http://s3.amazonaws.com/doc/2006-03-01/}"


_limits: dict[str, str] = {}  # "caller" -> ARN of the role that limits the yard's own key


def set_caller_role(name_or_arn: str) -> str:
    """Judge the yard's own key by this role from now on; "" lifts the limit. Return the role's ARN."""
    _limits.clear()
    if not name_or_arn:
        return ""
    role = deployed.role(name_or_arn)
    if role is None:
        known = ", ".join(deployed.role_names()) or "none"
        raise ValueError(f"there is no role '{name_or_arn}' in the yard; there are: {known}")
    _limits["caller"] = role.arn
    return role.arn


def as_caller(environ: Environ, key: Key) -> Key:
    """Return the key; if a role limits the yard's own key, it gets that role's session."""
    arn = _limits.get("caller")
    if arn is None or key.access_key_id != ACCESS_KEY_ID or _CALLER in environ:
        return key
    role = deployed.role(arn)  # a role that has been deleted allows nothing
    return replace(key, session=RoleSession(role_arn=arn, role_id=role.id if role else "", name="caller"))


def check(environ: Environ, call: Call, key: Key) -> None:
    """Raise ApiError if the policies of the caller's role do not allow the call."""
    if call.service == "sts" and call.operation in _ASSUMES:
        # STS refuses an absent role with the same message as one that the caller may not assume.
        arn = str((call.parameters or {}).get("RoleArn", ""))
        role = deployed.role(arn)
        caller = key.session.arn if key.session else ADMINISTRATOR
        if role is None or (key.session is None and not judging.trusts_account(role)):
            raise ApiError(
                "AccessDenied",
                f"User: {caller} is not authorized to perform: sts:{call.operation} on resource: {arn}",
                status=403,
            )
    if key.session is not None:
        judging.check(key.session, _asked(environ, call, key.session.user_id), call.protocol)


def session_of_answer(call: Call, key: Key) -> RoleSession | None:
    """Return the session whose credentials STS gives in its answer to this call."""
    if call.operation not in _ASSUMES:
        return key.session
    parameters = call.parameters or {}
    role = deployed.role(str(parameters.get("RoleArn", "")))
    assert role, "check() refuses an absent role"
    return RoleSession(
        role_arn=role.arn, role_id=role.id, name=str(parameters.get("RoleSessionName", "session"))
    )


def identity(session: RoleSession) -> Mapping[str, str]:
    """Answer sts:GetCallerIdentity for a role's session."""
    return {"UserId": session.user_id, "Account": ACCOUNT, "Arn": session.arn}


def _asked(environ: Environ, call: Call, user_id: str) -> AskedCall:
    if call.service != S3:
        return AskedCall(
            service=call.service,
            operation=call.operation,
            region=call.region,
            parameters=call.parameters or {},
            user_id=user_id,
        )
    # Bucket and key, from the path or from a host such as BUCKET.localhost.
    key = environ["PATH_INFO"].encode("latin-1").decode("utf-8", errors="replace").lstrip("/")
    bucket, dot, _ = environ["HTTP_HOST"].partition(".localhost")
    if not dot:
        bucket, _, key = key.partition("/")
    operation = operation_of(S3, {**environ, "PATH_INFO": f"/{bucket}/{key}" if key else f"/{bucket}"})
    query = dict(parse_qsl(environ.get("QUERY_STRING", ""), keep_blank_values=True))
    found: dict[str, object] = {**query, "Bucket": bucket, "Key": key}
    if operation == "DeleteObjects":
        found["Keys"], found["VersionedKeys"] = _keys_to_delete(environ)
    names = {name: name[5:].lower().replace("_", "-") for name in environ if name.startswith("HTTP_X_AMZ_")}
    return AskedCall(
        service=S3,
        operation=operation or call.operation,
        region=call.region,
        parameters=found,
        headers={header: unquote(str(environ[name])) for name, header in names.items()},
    )


def _keys_to_delete(environ: Environ) -> tuple[list[str], list[str]]:
    """Return the keys in the body of DeleteObjects, those without and those with a version.

    The body can be read again afterwards.
    """
    length = environ.get("CONTENT_LENGTH")
    body = environ["wsgi.input"].read(int(length)) if length else environ["wsgi.input"].read(_LARGEST_LIST)
    environ["wsgi.input"] = io.BytesIO(body)
    try:
        root = ElementTree.fromstring(body)  # noqa: S314 - entities are not expanded into keys: no DTD is read
    except ElementTree.ParseError:
        return [], []
    asked = [
        {part.tag.removeprefix(_XML): part.text or "" for part in each}
        for each in root.iter()
        if each.tag.removeprefix(_XML) == "Object"
    ]
    plain = [each.get("Key", "") for each in asked if "VersionId" not in each]
    versioned = [each.get("Key", "") for each in asked if "VersionId" in each]
    return plain, versioned
