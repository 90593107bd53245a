"""Cancels a job whose nodes run and never join: nothing else would end it, and its nodes are billed.

AWS Batch blocks the queue for such a job with the reason UNDETERMINED, for which a queue has no time limit
(user guide, "Jobs stuck in RUNNABLE with undetermined root cause"). So an EventBridge rule starts a runbook
of Systems Manager, which waits as long as the queue's own limits do, looks again, and cancels the job with
the reason. No code of ours runs: the runbook's steps are calls of AWS.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from aws_cdk import ArnFormat, Stack
from aws_cdk import aws_events as events
from aws_cdk import aws_ssm as ssm
from constructs import Construct

from slipway.infra.declare.types import BatchCluster
from slipway.infra.patterns.access.roles import ServiceRole
from slipway.infra.patterns.statements import Statement, allow
from slipway.jobs.words.names import TARGET_TAG, derived_name

UNDETERMINED = "UNDETERMINED"


class StuckJobCanceller(Construct):
    def __init__(self, scope: Construct, id: str, *, cluster: BatchCluster, queue_arn: str) -> None:
        super().__init__(scope, id)
        canceller = ServiceRole(
            self,
            "Runbook",
            service="ssm",
            description=f"Runbook: cancels jobs of {cluster.name} whose nodes do not join",
            statements=_may_cancel(self, cluster),
        )
        name = derived_name("document", f"slipway-{cluster.name}", "cancel")
        runbook_arn = Stack.of(self).format_arn(
            service="ssm",
            resource="automation-definition",
            resource_name=f"{name}:$DEFAULT",
            arn_format=ArnFormat.SLASH_RESOURCE_NAME,
        )
        self.runbook = ssm.CfnDocument(
            self,
            "Document",
            name=name,
            document_type="Automation",
            document_format="JSON",
            update_method="NewVersion",
            content=_content(cluster, canceller.arn),
        )
        starter = ServiceRole(
            self,
            "Rule",
            service="events",
            description="Rule: starts the runbook that cancels a stuck job",
            statements=_may_start(self, name, runbook_arn, canceller.arn),
        )
        rule = events.CfnRule(
            self,
            "Events",
            description=f"Jobs of cluster {cluster.name} whose nodes do not join: they are cancelled",
            event_pattern={
                "source": ["aws.batch"],
                "detail-type": ["Batch Job Queue Blocked"],
                "detail": {"jobQueue": [queue_arn], "statusReason": [{"prefix": UNDETERMINED}]},
            },
            targets=[
                events.CfnRule.TargetProperty(
                    id="Runbook",
                    arn=runbook_arn,
                    role_arn=starter.arn,
                    input_transformer=events.CfnRule.InputTransformerProperty(
                        input_paths_map={"job": "$.detail.jobId"}, input_template='{"Job":[<job>]}'
                    ),
                )
            ],
        )
        rule.node.add_dependency(self.runbook, starter.policy, canceller.policy)


def _content(cluster: BatchCluster, role_arn: str) -> Mapping[str, object]:
    seconds = cluster.runnable_timeout // timedelta(seconds=1)
    why = (
        f"{UNDETERMINED} for {cluster.runnable_timeout_minutes} minutes: the nodes of the job did not join. "
        "Cancelled, so that they end"
    )
    job = {"Service": "batch", "Api": "DescribeJobs", "jobs": ["{{ Job }}"]}
    return {
        "schemaVersion": "0.3",
        "description": f"Cancels a job of Slipway cluster {cluster.name} whose nodes do not join",
        "assumeRole": role_arn,
        "parameters": {
            "Job": {
                "type": "String",
                "description": "The id of the job",
                "allowedPattern": "^[0-9a-f-]{36}$",
            },
            "Wait": {
                "type": "String",
                "description": "How long its nodes have to join, as an ISO 8601 duration",
                "default": f"PT{seconds}S",
                "allowedPattern": "^PT[0-9]{1,5}S$",
            },
        },
        "mainSteps": [
            {"name": "Wait", "action": "aws:sleep", "inputs": {"Duration": "{{ Wait }}"}},
            _call("Look", job, Status="$.jobs[0].status"),
            _branch("IsWaiting", {"Variable": "{{ Look.Status }}", "StringEquals": "RUNNABLE"}, then="Ask"),
            # A step of its own: a running job has no reason, whose absence would fail the step.
            _call("Ask", job, Reason="$.jobs[0].statusReason"),
            _branch("IsStuck", {"Variable": "{{ Ask.Reason }}", "StartsWith": UNDETERMINED}, then="Cancel"),
            _call("Cancel", {"Service": "batch", "Api": "TerminateJob", "jobId": "{{ Job }}", "reason": why}),
        ],
    }


def _call(name: str, inputs: Mapping[str, object], **outputs: str) -> Mapping[str, object]:
    step = {"name": name, "action": "aws:executeAwsApi", "inputs": inputs}
    told = [{"Name": key, "Selector": path, "Type": "String"} for key, path in outputs.items()]
    return {**step, "outputs": told} if told else {**step, "isEnd": True}


def _branch(name: str, choice: Mapping[str, str], *, then: str) -> Mapping[str, object]:
    """Continue with a step if the choice holds, else end."""
    inputs = {"Choices": [{"NextStep": then, **choice}]}
    return {"name": name, "action": "aws:branch", "inputs": inputs, "isEnd": True}


def _may_cancel(scope: Construct, cluster: BatchCluster) -> tuple[Statement, ...]:
    jobs = Stack.of(scope).format_arn(service="batch", resource="job", resource_name="*")
    return (
        allow("SeeJobs", "batch:DescribeJobs", on="*"),
        allow(
            "CancelOwnJobs",
            "batch:TerminateJob",
            on=jobs,
            where={"StringEquals": {f"aws:ResourceTag/{TARGET_TAG}": cluster.name}},
        ),
    )


def _may_start(
    scope: Construct, runbook: str, definition_arn: str, canceller_arn: str
) -> tuple[Statement, ...]:
    """Allow the runbook by both of its names, and the execution, whose id Systems Manager makes up.

    A target names the automation-definition, and where a role has that alone, EventBridge's invocation fails:
    who starts a runbook needs its document and the execution (Systems Manager user guide, "Setting up
    identity based policies examples"). AWS's own policies, such as AWS-SSM-DiagnosisAutomation's, have all.
    """
    named = [
        Stack.of(scope).format_arn(service="ssm", resource=kind, resource_name=name)
        for kind, name in (("document", runbook), ("automation-execution", "*"))
    ]
    runbooks = [definition_arn, *named]
    return (
        allow("StartRunbook", "ssm:StartAutomationExecution", on=runbooks),
        allow(
            "GiveItItsRole",
            "iam:PassRole",
            on=canceller_arn,
            where={"StringEquals": {"iam:PassedToService": "ssm.amazonaws.com"}},
        ),
    )
