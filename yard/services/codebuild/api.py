"""CodeBuild's API: projects and builds. build.py runs a build.

To add an operation: a function and its line in OPERATIONS.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from slipway.yard.endpoint import ACCOUNT
from slipway.yard.errors import ApiError
from slipway.yard.services.codebuild.build import Build, start

Parameters = Mapping[str, Any]

_projects: dict[tuple[str, str], dict[str, Any]] = {}  # (region, name) -> project
_builds: dict[str, Build] = {}
_tokens: dict[tuple[str, str], tuple[float, Parameters, Build]] = {}  # (region, idempotencyToken)
_TOKEN_SECONDS = 300  # API reference, StartBuild
_lock = threading.Lock()

_DEFAULTS = {
    "timeoutInMinutes": 60,
    "queuedTimeoutInMinutes": 480,
    "cache": {"type": "NO_CACHE"},
    "badge": {"badgeEnabled": False},
    "projectVisibility": "PRIVATE",
    "tags": [],
}


def reset() -> None:
    _projects.clear()
    _builds.clear()
    _tokens.clear()


def _create_project(parameters: Parameters, region: str) -> dict[str, Any]:
    name = parameters["name"]
    now = datetime.now(UTC)
    project = {
        **_DEFAULTS,
        "encryptionKey": f"arn:aws:kms:{region}:{ACCOUNT}:alias/aws/s3",
        **parameters,
        "arn": f"arn:aws:codebuild:{region}:{ACCOUNT}:project/{name}",
        "created": now,
        "lastModified": now,
    }
    with _lock:
        if (region, name) in _projects:
            raise ApiError("ResourceAlreadyExistsException", f"Project already exists: {project['arn']}")
        _projects[region, name] = project
    return {"project": project}


def _update_project(parameters: Parameters, region: str) -> dict[str, Any]:
    with _lock:
        project = {**_project(parameters["name"], region), **parameters, "lastModified": datetime.now(UTC)}
        _projects[region, parameters["name"]] = project
    return {"project": project}


def _batch_get_projects(parameters: Parameters, region: str) -> dict[str, Any]:
    """Find projects by name or by ARN."""
    asked = {wanted: _projects.get((region, wanted.rpartition("/")[2])) for wanted in parameters["names"]}
    missing = [wanted for wanted, project in asked.items() if project is None]
    return {"projects": [project for project in asked.values() if project], "projectsNotFound": missing}


def _list_projects(_parameters: Parameters, region: str) -> dict[str, Any]:
    return {"projects": sorted(name for where, name in _projects if where == region)}


def _delete_project(parameters: Parameters, region: str) -> dict[str, Any]:
    """Delete a project; for CodeBuild an absent one is no error."""
    with _lock:
        _projects.pop((region, parameters["name"].rpartition("/")[2]), None)
    return {}


def _start_build(parameters: Parameters, region: str) -> dict[str, Any]:
    project = _project(parameters["projectName"].rpartition("/")[2], region)
    with _lock:
        if (build := _of_token(parameters, region)) is not None:
            return {"build": build.view()}
        number = 1 + sum(build.facts["projectName"] == project["name"] for build in _builds.values())
        build = Build.of(project, parameters, number, region)
        _builds[build.facts["id"]] = build
        if token := parameters.get("idempotencyToken"):
            _tokens[region, token] = time.monotonic(), parameters, build
    answer = {"build": build.view()}
    start(build)
    return answer


def _of_token(parameters: Parameters, region: str) -> Build | None:
    """Return the build that a request with this token started in the last five minutes."""
    at, before, build = _tokens.get((region, parameters.get("idempotencyToken", "")), (0.0, {}, None))
    if build is None or time.monotonic() - at > _TOKEN_SECONDS:
        return None
    if before != parameters:
        raise ApiError("InvalidInputException", "The idempotency token was used with other parameters")
    return build


def _batch_get_builds(parameters: Parameters, _region: str) -> dict[str, Any]:
    asked = {wanted: _builds.get(wanted.rpartition("build/")[2]) for wanted in parameters["ids"]}
    missing = [wanted for wanted, build in asked.items() if build is None]
    return {"builds": [build.view() for build in asked.values() if build], "buildsNotFound": missing}


def _list_builds_for_project(parameters: Parameters, region: str) -> dict[str, Any]:
    project = _project(parameters["projectName"], region)
    ids = [key for key, build in _builds.items() if build.facts["projectName"] == project["name"]]
    return {"ids": ids if parameters.get("sortOrder") == "ASCENDING" else ids[::-1]}


def _project(name: str, region: str) -> dict[str, Any]:
    try:
        return _projects[region, name]
    except KeyError:
        raise ApiError("ResourceNotFoundException", f"Project cannot be found: {name}") from None


OPERATIONS: Mapping[str, Callable[[Parameters, str], dict[str, Any]]] = {
    "BatchGetBuilds": _batch_get_builds,
    "BatchGetProjects": _batch_get_projects,
    "CreateProject": _create_project,
    "DeleteProject": _delete_project,
    "ListBuildsForProject": _list_builds_for_project,
    "ListProjects": _list_projects,
    "StartBuild": _start_build,
    "UpdateProject": _update_project,
}
