"""SageMaker: domains, pipelines, model package groups."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from slipway.yard.cloudformation.resources.api import ApiResource, call, find, mirrored, setting, shaped
from slipway.yard.cloudformation.resources.provider import Provider
from slipway.yard.cloudformation.resources.recorded import Recorded
from slipway.yard.cloudformation.resources.scope import ID, ResourceScope, live, prop, text
from slipway.yard.cloudformation.resources.tags import tags


def definition(scope: ResourceScope) -> dict[str, Any]:
    """The pipeline's definition, written in the template or kept in S3."""
    given = scope.properties["PipelineDefinition"]
    if "PipelineDefinitionBody" in given:
        return {"PipelineDefinition": given["PipelineDefinitionBody"]}
    place = given["PipelineDefinitionS3Location"]
    return {"PipelineDefinitionS3Location": {"Bucket": place["Bucket"], "ObjectKey": place["Key"]}}


def create_pipeline(scope: ResourceScope) -> dict[str, Any]:
    written = {name: value for name, value in scope.properties.items() if name != "PipelineDefinition"}
    return scope.send("create_pipeline", **written, **definition(scope), ClientRequestToken=_token(scope))


def update_pipeline(scope: ResourceScope) -> None:
    names = ("PipelineDescription", "PipelineDisplayName", "RoleArn", "ParallelismConfiguration")
    written = {name: scope.properties.get(name) for name in names}
    scope.send("update_pipeline", PipelineName=scope.id, **written, **definition(scope))


DOMAIN = ApiResource(
    service="sagemaker",
    create_call=shaped("create_domain"),
    identity=lambda scope: scope.response.get("DomainId") or scope.response["DomainArn"].rpartition("/")[2],
    describe=find("describe_domain", "", DomainId=ID),
    attributes={
        "DomainId": ID,
        "DomainArn": live("DomainArn"),
        "Url": live("Url", ""),
        "HomeEfsFileSystemId": live("HomeEfsFileSystemId", ""),
        "SecurityGroupIdForDomainBoundary": live("SecurityGroupIdForDomainBoundary", ""),
        "SingleSignOnManagedApplicationInstanceId": live("SingleSignOnManagedApplicationInstanceId", ""),
        "SingleSignOnApplicationArn": live("SingleSignOnApplicationArn", ""),
    },
    settings=(
        tags("add_tags", "delete_tags", ResourceArn=text("arn:aws:sagemaker:{region}:{account}:domain/{id}")),
    ),
    delete_call=call("delete_domain", DomainId=ID),
)

PIPELINE = ApiResource(
    service="sagemaker",
    create_call=create_pipeline,
    identity=prop("PipelineName"),
    describe=find("describe_pipeline", "", PipelineName=ID),
    settings=(
        setting(
            "ParallelismConfiguration",
            "PipelineDefinition",
            "PipelineDescription",
            "PipelineDisplayName",
            "RoleArn",
            put=update_pipeline,
            on_create=False,
        ),
        tags(
            "add_tags", "delete_tags", ResourceArn=text("arn:aws:sagemaker:{region}:{account}:pipeline/{id}")
        ),
    ),
    delete_call=lambda scope: scope.send(
        "delete_pipeline", PipelineName=scope.id, ClientRequestToken=_token(scope)
    ),
    reads=mirrored("PipelineDescription", "PipelineDisplayName", "RoleArn"),
    accepts=frozenset(
        {
            "ParallelismConfiguration",
            "PipelineDefinition",
            "PipelineDescription",
            "PipelineDisplayName",
            "PipelineName",
            "RoleArn",
            "Tags",
        }
    ),
)

# moto makes one and cannot delete it.
MODEL_PACKAGE_GROUP = Recorded(
    type="AWS::SageMaker::ModelPackageGroup",
    identity=text("arn:aws:sagemaker:{region}:{account}:model-package-group/{ModelPackageGroupName}"),
    attributes={
        "ModelPackageGroupArn": ID,
        "ModelPackageGroupStatus": "Completed",
        "CreationTime": lambda _scope: datetime.now(UTC).isoformat(),
    },
)

PROVIDERS: Mapping[str, Provider] = {
    "AWS::SageMaker::Domain": DOMAIN,
    "AWS::SageMaker::Pipeline": PIPELINE,
    "AWS::SageMaker::ModelPackageGroup": MODEL_PACKAGE_GROUP,
}


def _token(scope: ResourceScope) -> str:
    """SageMaker wants a token of 32 characters or more; one per resource and stack serves."""
    from hashlib import sha256

    return sha256(f"{scope.context.stack_id}/{scope.context.logical_id}".encode()).hexdigest()
