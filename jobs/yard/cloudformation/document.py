"""The text of a template, JSON or YAML with CloudFormation's short forms, as plain JSON data.

To add a short form: one name in SHORT_FORMS.
"""

from __future__ import annotations

import json
from typing import Any

import yaml

from jobs.yard.errors import ApiError

SHORT_FORMS = [
    "And",
    "Base64",
    "Cidr",
    "Equals",
    "FindInMap",
    "GetAtt",
    "GetAZs",
    "GetStackOutput",
    "If",
    "ImportValue",
    "Join",
    "Length",
    "Not",
    "Or",
    "Select",
    "Split",
    "Sub",
    "ToJsonString",
    "Transform",
]
PLAIN_FORMS = ("Condition", "Ref")  # these two carry no "Fn::"
MAX_BODY_BYTES = (
    51_200  # https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/cloudformation-limits.html
)
MAX_OBJECT_BYTES = 1_000_000


def parse(text: str) -> dict[str, Any]:
    """The template as a mapping; ValidationError in CloudFormation's words where it is none."""
    body = _decode(text)
    if not isinstance(body, dict):
        raise ApiError("ValidationError", "Template format error: unsupported structure.")
    return body


def _decode(text: str) -> Any:
    if text.lstrip().startswith("{"):
        try:
            return json.loads(text)
        except json.JSONDecodeError as error:
            where = f"(line {error.lineno}, column {error.colno})"
            failure = f"Template format error: JSON not well-formed. {where}"
    else:
        failure = "Template format error: YAML not well-formed."
    # A flow mapping of YAML begins with a brace too.
    return _decode_yaml(text, failure)


def _decode_yaml(text: str, failure: str) -> Any:
    try:
        # _Loader is a SafeLoader: tags make lists, mappings and strings, nothing else
        return _plain(yaml.load(text, Loader=_Loader))  # noqa: S506
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" (line {mark.line + 1}, column {mark.column + 1})" if mark and "JSON" not in failure else ""
        raise ApiError("ValidationError", failure + where) from error
    except RecursionError as error:
        raise ApiError("ValidationError", "Template format error: an alias contains itself.") from error


def _plain(value: Any) -> Any:
    """Keys as strings: YAML reads the account number of a mapping as an integer."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value


class _Loader(yaml.SafeLoader):
    pass


# "2010-09-09" stays a string, as CloudFormation reads it.
_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def _construct(loader: _Loader, suffix: str, node: yaml.Node) -> Any:
    if suffix in PLAIN_FORMS:
        name = suffix
    elif suffix in SHORT_FORMS:
        name = f"Fn::{suffix}"
    else:
        raise ApiError("ValidationError", f"Template format error: unknown tag !{suffix}.")
    return {name: _argument(loader, node)}


def _argument(loader: _Loader, node: yaml.Node) -> Any:
    if isinstance(node, yaml.ScalarNode):
        return loader.construct_scalar(node)
    if isinstance(node, yaml.SequenceNode):
        return loader.construct_sequence(node, deep=True)
    assert isinstance(node, yaml.MappingNode)
    return loader.construct_mapping(node, deep=True)


_Loader.add_multi_constructor("!", _construct)
