"""Parses the text of a template, JSON or YAML with CloudFormation's short forms, into plain JSON data.

To add a short form: one name in SHORT_FORMS.
"""

from __future__ import annotations

import json
from typing import Any

import yaml

from slipway.yard.bounded_yaml import ShallowLoader, UnfitYaml
from slipway.yard.errors import ApiError, validation_error

SHORT_FORMS = [
    "And",
    "Base64",
    "Cidr",
    "Contains",
    "EachMemberEquals",
    "EachMemberIn",
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
PLAIN_FORMS = ("Condition", "Ref")  # their long forms have no "Fn::"
MAX_BODY_BYTES = (
    51_200  # https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/cloudformation-limits.html
)
MAX_OBJECT_BYTES = 1_000_000
MAX_DEPTH = 100  # a limit of the yard: deeper values would exceed Python's recursion limit


def parse(text: str) -> dict[str, Any]:
    """Return the template as a mapping; raise ValidationError in CloudFormation's words if it is none."""
    try:
        body = _plain(_decode(text), 1)
    except RecursionError:
        raise _too_deep() from None
    if not isinstance(body, dict):
        raise validation_error("Template format error: unsupported structure.")
    return body


def _decode(text: str) -> Any:
    if text.lstrip().startswith("{"):
        try:
            return json.loads(text)
        except json.JSONDecodeError as error:
            where = f"(line {error.lineno}, column {error.colno})"
            failure = f"Template format error: JSON not well-formed. {where}"
        except ValueError:  # a number of more than 4,300 digits
            failure = "Template format error: JSON not well-formed."
    else:
        failure = "Template format error: YAML not well-formed."
    # Not an error yet: a flow mapping of YAML begins with a brace, too.
    try:
        # _Loader is a SafeLoader: tags make lists, mappings and strings, nothing else
        return yaml.load(text, Loader=_Loader)  # noqa: S506
    except UnfitYaml:  # too many nested brackets; other nesting is checked as in JSON
        raise _too_deep() from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" (line {mark.line + 1}, column {mark.column + 1})" if mark and "JSON" not in failure else ""
        raise validation_error(failure + where) from error
    except ValueError as error:  # a number that Python cannot hold
        raise validation_error(failure) from error


def _plain(value: Any, depth: int) -> Any:
    """Return the value with string keys: YAML reads an account number as an integer."""
    if depth > MAX_DEPTH:
        raise _too_deep()
    if isinstance(value, dict):
        return {str(key): _plain(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item, depth + 1) for item in value]
    return value


def _too_deep() -> ApiError:
    return validation_error(f"Template format error: it is nested deeper than {MAX_DEPTH} levels.")


class _Loader(ShallowLoader):
    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        """Refuse aliases as CloudFormation does: a few nested ones can expand to billions of values."""
        if self.check_event(yaml.AliasEvent):
            raise validation_error("Template error: YAML aliases are not allowed in CloudFormation templates")
        return super().compose_node(parent, index)


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
        raise validation_error(f"Template format error: unknown tag !{suffix}.")
    return {name: _argument(loader, node)}


def _argument(loader: _Loader, node: yaml.Node) -> Any:
    if isinstance(node, yaml.ScalarNode):
        return loader.construct_scalar(node)
    if isinstance(node, yaml.SequenceNode):
        return loader.construct_sequence(node, deep=True)
    assert isinstance(node, yaml.MappingNode)
    return loader.construct_mapping(node, deep=True)


_Loader.add_multi_constructor("!", _construct)
