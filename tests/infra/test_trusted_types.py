"""The CDK app does not look at types that mypy has looked at."""

from __future__ import annotations

import subprocess
import sys

OUTPUT = """
import sys
from slipway.infra.trusted_types import trust_types
trust_types()
import aws_cdk as cdk
stack = cdk.Stack(cdk.App(), "Stack")
cdk.CfnOutput(stack, "Name", value=stack.stack_name)
print("typeguard" in sys.modules)
"""


def test_the_app_makes_constructs_without_the_checker_of_types() -> None:
    done = subprocess.run([sys.executable, "-c", OUTPUT], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
