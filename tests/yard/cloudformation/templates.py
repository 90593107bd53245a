"""Small templates. A topic changes in place by DisplayName, and is replaced when TopicName changes."""

from __future__ import annotations

from typing import Any


def topic(display: Any = None, name: Any = None, **attributes: Any) -> dict[str, Any]:
    values = {"DisplayName": display, "TopicName": name}
    properties = {key: value for key, value in values.items() if value is not None}
    return {"Type": "AWS::SNS::Topic", "Properties": properties, **attributes}


def exporting(value: Any, name: str = "shared", **resources: Any) -> dict[str, Any]:
    outputs = {"O": {"Value": value, "Export": {"Name": name}}}
    return {"Resources": resources or {"T": topic()}, "Outputs": outputs}


def importing(name: str = "shared") -> dict[str, Any]:
    return {"T": topic(display={"Fn::ImportValue": name})}
