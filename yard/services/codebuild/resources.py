"""Resource types for container images: CodeBuild's projects and ECR's repositories."""

from __future__ import annotations

from collections.abc import Mapping

from slipway.yard.cloudformation.resources.api import (
    ApiResource,
    Name,
    call,
    changeable,
    find,
    mirrored,
    setting,
    shaped,
    tags,
)
from slipway.yard.cloudformation.resources.provider import Provider
from slipway.yard.cloudformation.resources.scope import ID, live, prop, text

# Properties that UpdateProject changes.
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
    "AWS::ECR::Repository": ApiResource(
        service="ecr",
        name=Name(property="RepositoryName", limit=256, lower=True),
        create_call=shaped("create_repository"),
        describe=find("describe_repositories", "repositories.0", repositoryNames=[ID]),
        attributes={"Arn": live("repositoryArn"), "RepositoryUri": live("repositoryUri")},
        settings=(
            changeable(
                "ImageScanningConfiguration",
                put=call(
                    "put_image_scanning_configuration",
                    repositoryName=ID,
                    imageScanningConfiguration=prop("ImageScanningConfiguration", {"scanOnPush": False}),
                ),
            ),
            changeable(
                "ImageTagMutability ImageTagMutabilityExclusionFilters",
                put=call(
                    "put_image_tag_mutability",
                    repositoryName=ID,
                    imageTagMutability=prop("ImageTagMutability", "MUTABLE"),
                    imageTagMutabilityExclusionFilters=prop("ImageTagMutabilityExclusionFilters"),
                ),
            ),
            setting(
                "LifecyclePolicy",
                put=call(
                    "put_lifecycle_policy",
                    repositoryName=ID,
                    lifecyclePolicyText=lambda scope: scope.properties["LifecyclePolicy"][
                        "LifecyclePolicyText"
                    ],
                ),
                remove=call("delete_lifecycle_policy", repositoryName=ID),
            ),
            setting(
                "RepositoryPolicyText",
                put=call("set_repository_policy", repositoryName=ID, policyText=prop("RepositoryPolicyText")),
                remove=call("delete_repository_policy", repositoryName=ID),
            ),
            # Only read when the repository is deleted.
            setting("EmptyOnDelete", put=lambda _scope: None),
            tags(resourceArn=text("arn:aws:ecr:{region}:{account}:repository/{id}")),
        ),
        delete_call=call("delete_repository", repositoryName=ID, force=prop("EmptyOnDelete", False)),
        reads=mirrored("ImageScanningConfiguration ImageTagMutability"),
    ),
}
