"""CodeBuild projects, in which the cloud builds our images."""

from __future__ import annotations

from collections.abc import Mapping

from slipway.yard.cloudformation.resources.api import (
    ApiResource,
    Name,
    call,
    changeable,
    find,
    mirrored,
    shaped,
)
from slipway.yard.cloudformation.resources.provider import Provider
from slipway.yard.cloudformation.resources.scope import ID, text

# What UpdateProject changes.
CHANGEABLE = (
    "Artifacts AutoRetryLimit BadgeEnabled BuildBatchConfig Cache ConcurrentBuildLimit Description "
    "EncryptionKey Environment LogsConfig QueuedTimeoutInMinutes ServiceRole Source SourceVersion "
    "Tags TimeoutInMinutes VpcConfig"
)


PROVIDERS: Mapping[str, Provider] = {
    "AWS::CodeBuild::Project": ApiResource(
        service="codebuild",
        name=Name(property="Name", limit=150),
        create_call=shaped("create_project"),
        describe=find("batch_get_projects", "projects.0", names=[ID]),
        attributes={"Id": ID, "Arn": text("arn:aws:codebuild:{region}:{account}:project/{id}")},
        settings=(changeable(CHANGEABLE, put=shaped("update_project", name=ID)),),
        delete_call=call("delete_project", name=ID),
        reads=mirrored("Description ServiceRole TimeoutInMinutes"),
    ),
}
