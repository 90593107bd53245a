"""Tells whose cluster a deployed one is, where several projects share an account."""

from __future__ import annotations

from slipway.jobs.cloud.aws import Unanswered, ask, reader
from slipway.jobs.words.errors import SlipwayError
from slipway.jobs.words.installation import find_project
from slipway.jobs.words.names import owner_parameter


def ask_owner(cluster: str, region: str) -> str | Unanswered | None:
    """Return the project that deployed the cluster; None: none that has a name."""
    answer = ask(reader("ssm", region), "GetParameter", Name=owner_parameter(cluster))
    if isinstance(answer, Unanswered):
        return None if answer.code == "ParameterNotFound" else answer
    return str(answer["Parameter"]["Value"])


def refuse_foreign(cluster: str, region: str) -> None:
    """Refuse to work on a cluster that another project deployed. Where AWS does not say, go on."""
    owner = ask_owner(cluster, region)
    if not isinstance(owner, str):
        return
    project = find_project()
    if owner != project.name:
        raise SlipwayError(
            f"cluster {cluster} belongs to project {owner}, and {project.folder} is "
            f"{f'project {project.name}' if project.name else 'no project with a name'}",
            hint=f"work in the folder of {owner}: its cdk.json says so",
        )
