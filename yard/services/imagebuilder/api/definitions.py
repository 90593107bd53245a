"""Image Builder's components, recipes, configurations and pipelines; images.py is about images.

To add a kind of resource: an entry of KINDS. The operations follow from its noun, as in botocore's model.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from slipway.yard.endpoint import ACCOUNT, own_client
from slipway.yard.errors import ApiError, not_emulated
from slipway.yard.services.imagebuilder.components.actions import BadDocument
from slipway.yard.services.imagebuilder.components.document import parse
from slipway.yard.services.recorded import TAG_OPERATIONS, Store, StoredRecord, kept, paged


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordKind:
    noun: str  # in operations such as CreateImageRecipe
    path: str  # in ARNs, with {name} and {version}
    listed: str  # member in the answer of its list operation
    arn_member: str = ""  # in requests and answers, if it differs from the noun
    facts: Mapping[str, Any] = field(default_factory=dict)
    can_change: bool = False

    @property
    def member(self) -> str:
        return self.noun[0].lower() + self.noun[1:]

    @property
    def arn_name(self) -> str:
        return self.arn_member or f"{self.member}Arn"


KINDS = (
    RecordKind(
        noun="Component",
        path="component/{name}/{version}/1",
        listed="componentVersionList",
        arn_member="componentBuildVersionArn",
        facts={"type": "BUILD", "encrypted": True},
    ),
    RecordKind(
        noun="ImageRecipe",
        path="image-recipe/{name}/{version}",
        listed="imageRecipeSummaryList",
        facts={"type": "AMI", "platform": "Linux"},
    ),
    RecordKind(
        noun="ContainerRecipe",
        path="container-recipe/{name}/{version}",
        listed="containerRecipeSummaryList",
        facts={"platform": "Linux"},
    ),
    RecordKind(
        noun="InfrastructureConfiguration",
        path="infrastructure-configuration/{name}",
        listed="infrastructureConfigurationSummaryList",
        can_change=True,
    ),
    RecordKind(
        noun="DistributionConfiguration",
        path="distribution-configuration/{name}",
        listed="distributionConfigurationSummaryList",
        facts={"timeoutMinutes": 720},
        can_change=True,
    ),
    RecordKind(
        noun="ImagePipeline",
        path="image-pipeline/{name}",
        listed="imagePipelineList",
        facts={"status": "ENABLED", "platform": "Linux"},
        can_change=True,
    ),
)
COMPONENT = KINDS[0]

Parameters = Mapping[str, Any]
store = Store()
_OUR_ARN = re.compile(rf"arn:aws:imagebuilder:[\w-]+:{ACCOUNT}:[\w/.-]+")


def call(operation: str, parameters: Parameters, region: str) -> dict[str, Any]:
    if operation in TAG_OPERATIONS:
        return store.tag_call(operation, parameters, missing(parameters["resourceArn"]))
    if operation == "ListComponentBuildVersions":
        version = parameters.get("componentVersionArn", "")
        found = [
            view(record) for record in store.of_kind("Component", region) if record.arn.startswith(version)
        ]
        return paged("componentSummaryList", found, parameters)
    if operation not in _OPERATIONS:
        raise not_emulated("imagebuilder", operation)
    act, kind = _OPERATIONS[operation]
    return {"requestId": str(uuid.uuid4()), **act(kind, parameters, region)}


def reset() -> None:
    store.clear()


def _create(kind: RecordKind, parameters: Parameters, region: str) -> dict[str, Any]:
    version = parameters.get("semanticVersion", "")
    slug = re.sub(r"[^a-z0-9-]+", "-", parameters["name"].lower())
    arn = f"arn:aws:imagebuilder:{region}:{ACCOUNT}:{kind.path.format(name=slug, version=version)}"
    _check_references(parameters)
    if parameters.get("dryRun"):
        raise ApiError("DryRunOperationException", "the request would have succeeded", status=412)
    given = kept(parameters, "name", "semanticVersion")
    if kind is COMPONENT:  # its document is fetched and checked when it is created
        if uri := given.pop("uri", ""):
            bucket, _, key = str(uri).removeprefix("s3://").partition("/")
            answer = own_client("s3", region).get_object(Bucket=bucket, Key=key)
            given["data"] = answer["Body"].read().decode()
        try:
            parse(given.get("data", ""), given.get("platform", "Linux"))
        except BadDocument as error:
            words = f"The component document is invalid: {error}"
            raise ApiError("InvalidParameterValueException", words) from None
    record = StoredRecord(
        arn=arn,
        kind=kind.noun,
        region=region,
        name=parameters["name"],
        given=given,
        facts={**kind.facts, "owner": ACCOUNT, **({"version": version} if version else {})},
        tags=dict(parameters.get("tags", {})),
        client_token=parameters.get("clientToken", ""),
    )
    return _answer(kind, store.add(record, existing(kind.noun, arn)).arn, parameters)


def _update(kind: RecordKind, parameters: Parameters, _region: str) -> dict[str, Any]:
    """Replace the whole resource: an update removes what it leaves out."""
    record = _named(kind, parameters)
    _check_references(parameters)
    store.change(record, kept(parameters, kind.arn_name))
    return _answer(kind, record.arn, parameters)


def _delete(kind: RecordKind, parameters: Parameters, _region: str) -> dict[str, Any]:
    record = _named(kind, parameters)
    users = [
        other.arn
        for other in store.everything()
        if any(refers(reference, record.arn) for reference in _references(other.given))
    ]
    if users:
        raise ApiError(
            "ResourceDependencyException",
            f"Resource dependency error: The resource ARN '{record.arn}' has other resources depended on it. "
            f"They are {', '.join(users)}.",
        )
    store.remove(record)
    return _answer(kind, record.arn, parameters)


def _list(kind: RecordKind, parameters: Parameters, region: str) -> dict[str, Any]:
    # The yard has nothing of AWS or the Marketplace.
    is_ours = parameters.get("owner", "Self") == "Self"
    found = [
        view(record)
        for record in store.of_kind(kind.noun, region)
        if is_ours and is_filtered_in(record.view(), parameters)
    ]
    if kind is COMPONENT:
        found = [{**each, "arn": each["arn"].rpartition("/")[0], "status": "ACTIVE"} for each in found]
    return paged(kind.listed, found, parameters)


def is_filtered_in(shown: Parameters, parameters: Parameters) -> bool:
    return all(shown.get(wanted["name"]) in wanted["values"] for wanted in parameters.get("filters", []))


def _named(kind: RecordKind, parameters: Parameters) -> StoredRecord:
    arn = parameters[kind.arn_name]
    record = store.at(arn)
    if record is None or record.kind != kind.noun:
        raise missing(arn)
    return record


def view(record: StoredRecord) -> dict[str, Any]:
    dates = {"dateCreated": iso(record.created_at), "dateUpdated": iso(record.modified_at)}
    return {**record.view(), **dates}


def iso(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def _answer(kind: RecordKind, arn: str, parameters: Parameters) -> dict[str, Any]:
    return {kind.arn_name: arn, "clientToken": parameters.get("clientToken")}


def _check_references(parameters: Parameters) -> None:
    """Check that referenced resources exist, except for those of AWS or the Marketplace."""
    for reference in _references(kept(parameters)):
        if not any(refers(reference, record.arn) for record in store.everything()):
            raise ApiError("InvalidParameterValueException", f"there is no '{reference}'")


def _references(given: Parameters) -> Iterator[str]:
    """Yield the ARNs of this account in the parameters, at any depth; skip free text such as `data`."""
    for name, value in given.items():
        if isinstance(value, str) and name.endswith("Arn"):
            yield from _OUR_ARN.findall(value)
        elif isinstance(value, list | dict):
            nested = value if isinstance(value, list) else [value]
            yield from (found for item in nested if isinstance(item, dict) for found in _references(item))


def refers(reference: str, arn: str) -> bool:
    """Return True if the reference means the ARN; it may omit the build, and use x for "the newest"."""
    pattern = re.sub(r"(?<=[/.])x(?=\\\.|/|$)", r"\\d+", re.escape(reference))
    return re.fullmatch(pattern + r"(/\d+)?", arn) is not None


def existing(noun: str, arn: str) -> ApiError:
    words = f"The following resource '{noun}' already exists: '{arn}'."
    return ApiError("ResourceAlreadyExistsException", words)


def missing(arn: str) -> ApiError:
    return ApiError("ResourceNotFoundException", f"there is no '{arn}'", status=404)


_Act = Callable[[RecordKind, Parameters, str], dict[str, Any]]
_VERBS: Mapping[str, _Act] = {
    "Create": _create,
    "Get": lambda kind, parameters, _region: {kind.member: view(_named(kind, parameters))},
    "Delete": _delete,
}
_OPERATIONS: Mapping[str, tuple[_Act, RecordKind]] = {
    **{verb + kind.noun: (act, kind) for verb, act in _VERBS.items() for kind in KINDS},
    **{f"Update{kind.noun}": (_update, kind) for kind in KINDS if kind.can_change},
    **{f"List{kind.noun}s": (_list, kind) for kind in KINDS},
}
CALLS = frozenset({*_OPERATIONS, *TAG_OPERATIONS, "ListComponentBuildVersions"})
