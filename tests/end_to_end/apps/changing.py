"""A small CDK app whose context decides what it declares: `-c value=…`, `-c size=…`, `-c break=true`."""

from __future__ import annotations

from aws_cdk import App, CfnOutput, Stack
from aws_cdk import aws_logs as logs
from aws_cdk import aws_ssm as ssm

app = App()
stack = Stack(app, "changing")
value = app.node.try_get_context("value") or "first"
setting = ssm.CfnParameter(stack, "Setting", name="/changing/setting", type="String", value=value)
# A log group's name cannot change in place: another name is another log group.
group = app.node.try_get_context("group") or "/changing/one"
log = logs.CfnLogGroup(stack, "Log", log_group_name=group, retention_in_days=7)
log.add_resource_dependency(setting)
CfnOutput(stack, "LogName", value=log.ref)
if app.node.try_get_context("break"):
    # The test has made a parameter of this name outside the stack, so that creating it must fail.
    taken = ssm.CfnParameter(stack, "Taken", name="/changing/taken", type="String", value="x")
    taken.add_resource_dependency(log)
app.synth()
