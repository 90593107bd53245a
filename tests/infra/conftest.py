"""The CDK's own validator costs seconds a synthesis; here it is off, and test_gates.py runs it once."""

from __future__ import annotations

import os

# When this file is read, and not in a fixture: the CDK's process starts as soon as a test imports aws_cdk.
os.environ["CDK_VALIDATION"] = "false"
