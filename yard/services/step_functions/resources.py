"""Step Functions: state machines. They are kept; the yard starts no execution of one."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from slipway.yard.cloudformation.resources.api import ApiResource, call, find, setting, shaped
from slipway.yard.cloudformation.resources.names import Name
from slipway.yard.cloudformation.resources.provider import Provider
from slipway.yard.cloudformation.resources.scope import ID, ResourceScope, live, prop, response
from slipway.yard.cloudformation.resources.tags import as_map, tags
from slipway.yard.errors import ApiError

WRITTEN_IN = ("Definition", "DefinitionString", "DefinitionS3Location", "DefinitionSubstitutions")


def definition(scope: ResourceScope) -> str:
    """The definition as text, with the template's substitutions made."""
    given = scope.properties
    substitutions = given.get("DefinitionSubstitutions") or {}

    def value(found: re.Match[str]) -> str:
        return str(substitutions.get(found[1], found[0]))

    return re.sub(r"\$\{(\w+)\}", value, _written(scope, given))


def _written(scope: ResourceScope, given: Mapping[str, Any]) -> str:
    if "DefinitionString" in given:
        return str(given["DefinitionString"])
    if "Definition" in given:
        return json.dumps(given["Definition"])
    place = given.get("DefinitionS3Location")
    if not place:
        raise ApiError("ValidationError", f"a state machine needs one of {', '.join(WRITTEN_IN[:3])}")
    content = scope.send_to("s3", "get_object", Bucket=place["Bucket"], Key=place["Key"])
    return str(content["Body"].read().decode())


def lower_tags(scope: ResourceScope) -> list[dict[str, str]] | None:
    return [{"key": key, "value": value} for key, value in as_map(scope.properties, "Tags").items()] or None


STATE_MACHINE = ApiResource(
    service="stepfunctions",
    name=Name(property="StateMachineName", limit=80),
    create_call=shaped(
        "create_state_machine",
        renames={"StateMachineName": "name", "StateMachineType": "type"},
        definition=definition,
        tags=lower_tags,
    ),
    identity=response("stateMachineArn"),
    describe=find("describe_state_machine", "", stateMachineArn=ID),
    attributes={
        "Arn": ID,
        "Name": live("name"),
        "StateMachineRevisionId": live("revisionId", "INITIAL"),
    },
    settings=(
        setting(
            *WRITTEN_IN,
            "RoleArn",
            put=call(
                "update_state_machine", stateMachineArn=ID, definition=definition, roleArn=prop("RoleArn")
            ),
            on_create=False,
        ),
        tags(resourceArn=ID),
    ),
    delete_call=call("delete_state_machine", stateMachineArn=ID),
    accepts=frozenset({*WRITTEN_IN, "Tags"}),
)

PROVIDERS: Mapping[str, Provider] = {"AWS::StepFunctions::StateMachine": STATE_MACHINE}
