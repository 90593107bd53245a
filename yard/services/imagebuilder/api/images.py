"""Image Builder's images; imagebuilder/build makes them.

To add an operation: a function and its line in _OPERATIONS, and its name in yard/services/registry.py.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from slipway.yard.endpoint import ACCOUNT
from slipway.yard.errors import ApiError
from slipway.yard.machines import image_store
from slipway.yard.services.imagebuilder.api.definitions import (
    existing,
    is_filtered_in,
    missing,
    refers,
    store,
    view,
)
from slipway.yard.services.imagebuilder.build import build_runner
from slipway.yard.services.imagebuilder.build.bake_roles import Bake, BakePlan, Ingredient
from slipway.yard.services.recorded import StoredRecord, paged

Parameters = Mapping[str, Any]
STOP_SECONDS = 10
DEFAULT_TYPE = "m5.large"  # if an infrastructure configuration names none
_CONSTANTS: Mapping[str, str] = {
    "type": "AMI",
    "platform": "Linux",
    "buildType": "USER_INITIATED",
    "imageSource": "CUSTOM",
    "owner": ACCOUNT,
}

bakes: dict[str, Bake] = {}
_starting = threading.Lock()


def call(operation: str, parameters: Parameters, region: str) -> dict[str, Any]:
    return {"requestId": str(uuid.uuid4()), **_OPERATIONS[operation](parameters, region)}


def reset() -> None:
    for bake in bakes.values():
        build_runner.cancel(bake)
    for bake in bakes.values():
        bake.ended.wait(STOP_SECONDS)
    bakes.clear()
    image_store.forget()


def _start_pipeline(parameters: Parameters, region: str) -> dict[str, Any]:
    pipeline = _recorded("ImagePipeline", parameters["imagePipelineArn"])
    given = pipeline.given
    if "imageRecipeArn" not in given:
        raise ApiError(
            "InvalidRequestException",
            f"{pipeline.arn} makes container images, and the yard only AMIs: give it an imageRecipeArn",
        )
    logging = given.get("loggingConfiguration", {}).get("imageLogGroupName")
    facts = {"sourcePipelineName": pipeline.name, "sourcePipelineArn": pipeline.arn}
    tags = {**given.get("imageTags", {}), **parameters.get("tags", {})}
    return _start({**given, "clientToken": parameters.get("clientToken", "")}, logging, facts, tags, region)


def _create_image(parameters: Parameters, region: str) -> dict[str, Any]:
    if "imageRecipeArn" not in parameters:
        recipe = parameters.get("containerRecipeArn", "no recipe")
        raise ApiError(
            "InvalidRequestException",
            f"{recipe} was given, and the yard makes AMIs only: give an imageRecipeArn",
        )
    logging = parameters.get("loggingConfiguration", {}).get("logGroupName")
    return _start(parameters, logging, {}, dict(parameters.get("tags", {})), region)


def _start(
    given: Parameters, log_group: str | None, facts: dict[str, Any], tags: dict[str, str], region: str
) -> dict[str, Any]:
    """Start a bake, and return its image; the same client token returns the same image."""
    recipe = _recorded("ImageRecipe", given["imageRecipeArn"])
    infrastructure = _recorded("InfrastructureConfiguration", given["infrastructureConfigurationArn"])
    parts = {"imageRecipe": view(recipe), "infrastructureConfiguration": view(infrastructure)}
    if arn := given.get("distributionConfigurationArn"):
        parts["distributionConfiguration"] = view(_recorded("DistributionConfiguration", arn))
    tests = {"imageTestsEnabled": True, "timeoutMinutes": 720, **given.get("imageTestsConfiguration", {})}
    with _starting:
        prefix = f"image/{recipe.arn.partition('image-recipe/')[2]}/"
        builds = [int(known.rpartition("/")[2]) for known in bakes if prefix in known]
        version = f"{recipe.facts['version']}/{max(builds, default=0) + 1}"
        slug = recipe.arn.split("/")[1]
        record = StoredRecord(
            arn=f"arn:aws:imagebuilder:{region}:{ACCOUNT}:image/{slug}/{version}",
            kind="Image",
            region=region,
            name=recipe.name,
            given={},  # the bake has its own copies: recipe and configurations may be deleted
            facts={**parts, **facts, "version": version, **_CONSTANTS, "imageTestsConfiguration": tests},
            tags=tags,
            client_token=given.get("clientToken", ""),
        )
        stored = store.add(record, existing("Image", record.arn))
        if stored is record:
            plan = _plan(record, recipe, log_group, given.get("executionRole", ""))
            bakes[record.arn] = Bake(plan=plan)
            build_runner.start(bakes[record.arn])
    return {"imageBuildVersionArn": stored.arn, "clientToken": given.get("clientToken")}


def _plan(record: StoredRecord, recipe: StoredRecord, log_group: str | None, execution_role: str) -> BakePlan:
    infrastructure = record.facts["infrastructureConfiguration"]
    distribution = record.facts.get("distributionConfiguration", {})
    return BakePlan(
        arn=record.arn,
        region=record.region,
        name=recipe.name,
        version=record.facts["version"],
        parent=recipe.given["parentImage"],
        instance_profile=infrastructure["instanceProfileName"],
        instance_type=(infrastructure.get("instanceTypes") or [DEFAULT_TYPE])[0],
        infrastructure=infrastructure,
        execution_role=execution_role,
        working_directory=recipe.given.get("workingDirectory", "/tmp"),  # noqa: S108 - on the machine
        ingredients=tuple(_ingredient(component) for component in recipe.given.get("components", ())),
        distributions=tuple(distribution.get("distributions", ())),
        ami_tags=recipe.given.get("amiTags", {}),
        runs_tests=record.facts["imageTestsConfiguration"]["imageTestsEnabled"],
        log_group=log_group or f"/aws/imagebuilder/{recipe.name}",
    )


def _ingredient(given: Parameters) -> Ingredient:
    reference = given["componentArn"]
    found = [record for record in store.everything() if refers(reference, record.arn)]
    newest = max(found, key=lambda record: _numbers(record.facts["version"]), default=None)
    return Ingredient(
        arn=newest.arn if newest else reference,
        name=newest.name if newest else reference.split("/")[1],
        data=newest.given["data"] if newest else None,
        parameters={
            parameter["name"]: ",".join(parameter["value"]) for parameter in given.get("parameters", ())
        },
    )


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def _get_image(parameters: Parameters, _region: str) -> dict[str, Any]:
    record = image(parameters)
    bake = bakes[record.arn]
    logging = {"loggingConfiguration": {"logGroupName": bake.plan.log_group}}
    return {"image": {**view(record), **_progress(bake), **logging}}


def _progress(bake: Bake) -> dict[str, Any]:
    return {"state": bake.state(), "outputResources": {"amis": list(bake.amis)}}


def image(parameters: Parameters) -> StoredRecord:
    """Find an image by its build version, or its newest build by its version."""
    arn = parameters["imageBuildVersionArn"]
    found = [known for known in bakes if refers(arn, known)]
    record = store.at(max(found, key=_numbers_of_build)) if found else None
    if record is None:
        raise missing(arn)
    return record


def _numbers_of_build(arn: str) -> tuple[int, ...]:
    version, build = arn.split("/")[-2:]
    return (*_numbers(version), int(build))


def _images(region: str) -> Iterator[tuple[StoredRecord, dict[str, Any]]]:
    for record in store.of_kind("Image", region):
        yield record, {**view(record), **_progress(bakes[record.arn])}


def _list_images(parameters: Parameters, region: str) -> dict[str, Any]:
    """List one entry per version, with any number of builds. The yard has no AWS images."""
    versions: dict[str, dict[str, Any]] = {}
    for record, shown in _images(region) if parameters.get("owner", "Self") == "Self" else ():
        arn, _, _ = record.arn.rpartition("/")
        if is_filtered_in(shown, parameters):
            versions[arn] = {**shown, "arn": arn, "version": shown["version"].partition("/")[0]}
    return paged("imageVersionList", list(versions.values()), parameters)


def _list_builds(parameters: Parameters, region: str) -> dict[str, Any]:
    version = parameters.get("imageVersionArn", "")
    return _summaries(
        parameters, region, lambda record: record.arn.startswith(f"{version}/" if version else "")
    )


def _list_of_pipeline(parameters: Parameters, region: str) -> dict[str, Any]:
    arn = _recorded("ImagePipeline", parameters["imagePipelineArn"]).arn
    return _summaries(parameters, region, lambda record: record.facts.get("sourcePipelineArn") == arn)


def _summaries(parameters: Parameters, region: str, wanted: Callable[[StoredRecord], bool]) -> dict[str, Any]:
    found = [
        shown for record, shown in _images(region) if wanted(record) and is_filtered_in(shown, parameters)
    ]
    return paged("imageSummaryList", found, parameters)


def _cancel(parameters: Parameters, _region: str) -> dict[str, Any]:
    record = image(parameters)
    if bakes[record.arn].is_final:
        raise ApiError("InvalidRequestException", f"{record.arn} is {bakes[record.arn].status} already")
    build_runner.cancel(bakes[record.arn])
    return {"imageBuildVersionArn": record.arn, "clientToken": parameters.get("clientToken")}


def _delete(parameters: Parameters, _region: str) -> dict[str, Any]:
    """Delete Image Builder's record of the image; the AMI stays."""
    record = image(parameters)
    if not bakes[record.arn].is_final:
        raise ApiError("ResourceInUseException", f"{record.arn} is {bakes[record.arn].status}")
    store.remove(record)
    del bakes[record.arn]
    return {"imageBuildVersionArn": record.arn}


def _recorded(kind: str, arn: str) -> StoredRecord:
    for record in store.everything():
        if record.kind == kind and refers(arn, record.arn):
            return record
    raise missing(arn)


_OPERATIONS: Mapping[str, Callable[[Parameters, str], dict[str, Any]]] = {
    "CancelImageCreation": _cancel,
    "CreateImage": _create_image,
    "DeleteImage": _delete,
    "GetImage": _get_image,
    "ListImageBuildVersions": _list_builds,
    "ListImagePipelineImages": _list_of_pipeline,
    "ListImages": _list_images,
    "StartImagePipelineExecution": _start_pipeline,
}
