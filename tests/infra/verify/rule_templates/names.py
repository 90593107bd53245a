"""Names that several templates use: resource types, paths in them, and the marks of BAD."""

from __future__ import annotations

GONE = object()  # removes the key

Path = tuple[str | int, ...]
# A rule, a type with one resource in GOOD, a path from its properties, and the wrong value there.
BadRow = tuple[str, str, Path, object]

DATA = ("LaunchTemplateData",)
POOL = ("ComputeResources",)
TEMPLATE = "AWS::EC2::LaunchTemplate"
COMPUTE = "AWS::Batch::ComputeEnvironment"
JOB = "AWS::Batch::JobDefinition"
IN = "AWS::EC2::SecurityGroupIngress"
OUT = "AWS::EC2::SecurityGroupEgress"
SELF = {"Fn::GetAtt": ["Group", "GroupId"]}
