"""Resource types that are only recorded: the yard keeps their properties, and no service knows the resource.

recorded_types.txt lists most of them. To add one: its name there, and a row of FORMS if its schema does not
say what its id and attributes look like. `records` returns what is kept.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

from slipway.yard.cloudformation.resources.api import Name
from slipway.yard.cloudformation.resources.provider import Context, Properties, Resource
from slipway.yard.cloudformation.resources.scope import ID, Expression, ResourceScope, prop, resolve, text
from slipway.yard.cloudformation.template import schemas


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceRecord:
    region: str
    type: str
    physical_id: str
    properties: Properties
    attributes: Mapping[str, Any]


# The records of this process's yard, in memory as moto's back ends are.
_STORE: dict[tuple[str, str, str], ResourceRecord] = {}


def reset() -> None:
    _STORE.clear()


def records(kind: str = "", region: str = "") -> tuple[ResourceRecord, ...]:
    """Return what is recorded now, limited to a type and a region where given."""
    return tuple(
        record for record in _STORE.values() if kind in ("", record.type) and region in ("", record.region)
    )


def is_only_recorded(kind: str, physical_id: str) -> bool:
    """Return True if a stack recorded it and no service knows it, so a service's call on it would fail."""
    return any(record.physical_id == physical_id for record in records(kind))


EMPTY: Mapping[str, Callable[[], Any]] = {
    "integer": int,
    "number": int,
    "boolean": bool,
    "array": list,
    "object": dict,
}
NO_FORM: Mapping[str, Any] = {}
# Ids that other types check against a pattern.
IDS = {"AWS::Cognito::UserPool": "{region}_{random}"}
# The type's name in ARNs, where it is not the type's name in lower case.
ARN_WORDS = {"AWS::SageMaker::StudioLifecycleConfig": "studio-lifecycle-config"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """The form of a type's id and attributes.

    In `identity`, {id} is a fresh random number; in `attributes` it is the final id.
    """

    identity: Expression
    attributes: Mapping[str, Any] = field(default_factory=dict)
    name: Name | None = None  # how to name it when the template does not


def provider(kind: str) -> SchemaRecord:
    return SchemaRecord(type=kind, form=FORMS.get(kind))


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaRecord:
    """Provides a type that is only recorded; its form, else its schema, gives its id and attributes."""

    type: str
    form: Form | None = None

    def create(self, context: Context, properties: Properties) -> Resource:
        if (form := self.form) is None:
            return self._keep(context, self._identity(context, properties), properties)
        named = form.name.given(context, properties) if form.name else properties
        fresh = ResourceScope(context=context, service="", id=secrets.token_hex(9)[:17], properties=named)
        scope = replace(fresh, id=str(form.identity(fresh)))
        return self._keep(context, scope.id, properties, resolve(form.attributes, scope))

    def update(self, context: Context, resource: Resource, old: Properties, new: Properties) -> Resource:
        self._record(context, resource, new)
        return resource

    def delete(self, context: Context, resource: Resource, properties: Properties) -> None:
        _STORE.pop((context.region, self.type, resource.physical_id), None)

    def read(self, context: Context, resource: Resource, properties: Properties) -> Properties | None:
        record = _STORE.get((context.region, self.type, resource.physical_id))
        return record.properties if record else None

    def _keep(
        self, context: Context, physical_id: str, properties: Properties, known: Mapping[str, Any] = NO_FORM
    ) -> Resource:
        attributes = {
            path.replace("/", "."): _listed(path, properties) or self._attribute(context, physical_id, path)
            for path in schemas.read_only(self.type)
            if "*" not in path
        }
        made = Resource(physical_id=physical_id, attributes={**attributes, **known})
        self._record(context, made, properties)
        return made

    def _record(self, context: Context, made: Resource, properties: Properties) -> None:
        _STORE[context.region, self.type, made.physical_id] = ResourceRecord(
            region=context.region,
            type=self.type,
            physical_id=made.physical_id,
            properties=properties,
            attributes=made.attributes,
        )

    def _identity(self, context: Context, properties: Properties) -> str:
        """Return the id that the service would generate, else the properties that name the resource."""
        parts = schemas.primary_identifier(self.type) or ("Id",)
        made_up = [part for part in parts if part in schemas.read_only(self.type)]
        if made_up:
            if self.type in IDS:
                fresh = IDS[self.type].format(region=context.region, random=secrets.token_hex(5)[:9])
            else:
                fresh = f"{self.type.rpartition('::')[2].lower()[:12]}-{secrets.token_hex(9)[:17]}"
            return str(self._attribute(context, fresh, made_up[0]))
        return "|".join(str(properties.get(part) or context.default_name) for part in parts)

    def _attribute(self, context: Context, physical_id: str, path: str) -> Any:
        name, service = path.rpartition("/")[2], self.type.split("::")[1].lower()
        if physical_id.startswith("arn:"):
            arn, name_or_id = physical_id, re.split("[:/]", physical_id)[-1]
        else:
            name_or_id = physical_id
            word = ARN_WORDS.get(self.type) or self.type.rpartition("::")[2].lower()
            arn = f"arn:aws:{service}:{context.region}:{context.account}:{word}/{physical_id}"
        if empty := EMPTY.get(schemas.property_type(self.type, path)):
            return empty()
        return arn if name.lower().endswith("arn") else name_or_id


def _listed(path: str, properties: Properties) -> list[Any]:
    """Return the list for a plural such as ResourceArns, if the template gives a ResourceArn."""
    return [properties[path[:-1]]] if path.endswith("s") and path[:-1] in properties else []


# The forms of ids and attributes that the schemas of recorded types do not give.
# For a type without a row they are derived from its schema. To add one: a row of FORMS.
PORTS = {"postgres": "5432", "oracle": "1521", "sqlserver": "1433", "db2": "50000"}  # others: MySQL's


def made(template: str) -> Expression:
    """Return text as `text` does, with {digest}: letters and digits that are constant for this resource."""

    def filled(scope: ResourceScope) -> str:
        digest = sha256(f"{scope.context.stack_id}/{scope.id}".encode()).hexdigest()
        return str(text(template.replace("{digest}", digest[:12]))(scope))

    return filled


def lower(name: str) -> Expression:
    """Return the name in lower case, as RDS keeps it."""
    return lambda scope: str(scope.properties[name]).lower()


def end(count: int) -> Expression:
    """Return the last `count` parts of the id, an ARN that is split at slashes."""
    return lambda scope: "/".join(scope.id.split("/")[-count:])


def port(scope: ResourceScope) -> str:
    """Return the port, else the engine's usual one, as text: so are all attributes in CloudFormation."""
    engine = str(scope.properties.get("Engine", "")).lower()
    known = (number for word, number in PORTS.items() if word in engine)
    return str(scope.properties.get("Port") or next(known, "3306"))


def queue_url(scope: ResourceScope) -> str:
    name = str(scope.properties["QueueName"])
    is_first_in_first_out = str(scope.properties.get("FifoQueue")).lower() == "true"
    name += ".fifo" if is_first_in_first_out and not name.endswith(".fifo") else ""
    return str(text(f"https://sqs.{{region}}.amazonaws.com/{{account}}/{name}")(scope))


def load_balancer(scope: ResourceScope) -> str:
    kind = {"network": "net", "gateway": "gwy"}.get(str(scope.properties.get("Type")), "app")
    return str(text(f"{BALANCING}:loadbalancer/{kind}/{{Name}}/{scope.id[:16]}")(scope))


def below(parent: str, word: str, child: str) -> Expression:
    """Return an ARN that extends the ARN of the resource's parent."""
    return lambda scope: f"{scope.properties.get(parent)}/{scope.id[:16]}".replace(f":{word}/", f":{child}/")


def account_wide(kind: str) -> Expression:
    """Return the ARN of an IAM user or group, which has no region."""
    return lambda scope: text(f"arn:aws:iam::{{account}}:{kind}{scope.properties.get('Path', '/')}{{id}}")(
        scope
    )


def named(property_name: str, limit: int, **attributes: Any) -> Form:
    return Form(
        name=Name(property=property_name, limit=limit), identity=prop(property_name), attributes=attributes
    )


def of_rds(
    property_name: str, limit: int, arn: str, kind: str, attributes: Mapping[str, Any] | None = None
) -> Form:
    """Return the form of a type that RDS keeps under a name in lower case."""
    return Form(
        name=Name(property=property_name, limit=limit, lower=True),
        identity=lower(property_name),
        attributes={arn: text(f"arn:aws:rds:{{region}}:{{account}}:{kind}:{{id}}"), **(attributes or {})},
    )


def numbered(prefix: str, attribute: str) -> Form:
    """Return the form of a type with an id such as EC2's: a prefix and a number."""
    return Form(identity=text(f"{prefix}-{{id}}"), attributes={attribute: ID})


BALANCING = "arn:aws:elasticloadbalancing:{region}:{account}"
SECRET = {"MasterUserSecret.SecretArn": made("arn:aws:secretsmanager:{region}:{account}:secret:rds!{digest}")}
DIRECTORY = Form(
    identity=lambda scope: f"d-{scope.id[:10]}",
    attributes={"DirectoryId": ID, "Alias": ID, "DnsIpAddresses": ["10.0.0.10", "10.0.1.10"]},
)

FORMS: Mapping[str, Form] = {
    "AWS::DirectoryService::MicrosoftAD": DIRECTORY,
    "AWS::DirectoryService::SimpleAD": DIRECTORY,
    "AWS::DynamoDB::Table": named(
        "TableName",
        255,
        StreamArn=text("arn:aws:dynamodb:{region}:{account}:table/{id}/stream/2024-01-01T00:00:00.000"),
    ),
    "AWS::EC2::DHCPOptions": numbered("dopt", "DhcpOptionsId"),
    "AWS::EC2::EgressOnlyInternetGateway": numbered("eigw", "Id"),
    "AWS::EC2::EIPAssociation": numbered("eipassoc", "Id"),
    "AWS::EC2::NetworkAcl": numbered("acl", "Id"),
    "AWS::EC2::SubnetNetworkAclAssociation": numbered("aclassoc", "AssociationId"),
    "AWS::EC2::Volume": numbered("vol", "VolumeId"),
    "AWS::EC2::VPCPeeringConnection": numbered("pcx", "Id"),
    "AWS::ECS::Cluster": named("ClusterName", 255),
    "AWS::ECS::TaskDefinition": Form(
        name=Name(property="Family", limit=255),
        identity=text("arn:aws:ecs:{region}:{account}:task-definition/{Family}:1"),
    ),
    "AWS::ElasticLoadBalancingV2::Listener": Form(
        identity=below("LoadBalancerArn", "loadbalancer", "listener")
    ),
    "AWS::ElasticLoadBalancingV2::ListenerRule": Form(
        identity=below("ListenerArn", "listener", "listener-rule")
    ),
    "AWS::ElasticLoadBalancingV2::LoadBalancer": Form(
        name=Name(property="Name", limit=32),
        identity=load_balancer,
        attributes={
            "CanonicalHostedZoneID": "Z35SXDOTRQ7X7K",
            "DNSName": made("{Name}-{digest}.{region}.elb.amazonaws.com"),
            "LoadBalancerFullName": end(3),
            "LoadBalancerName": prop("Name"),
            "SecurityGroups": prop("SecurityGroups", []),
        },
    ),
    "AWS::ElasticLoadBalancingV2::TargetGroup": Form(
        name=Name(property="Name", limit=32),
        identity=lambda scope: text(f"{BALANCING}:targetgroup/{{Name}}/{scope.id[:16]}")(scope),
        attributes={
            "TargetGroupFullName": lambda scope: f"targetgroup/{end(2)(scope)}",
            "TargetGroupName": prop("Name"),
        },
    ),
    "AWS::IAM::AccessKey": Form(
        identity=lambda scope: f"AKIA{scope.id[:16].upper()}",
        attributes={"SecretAccessKey": lambda _scope: secrets.token_urlsafe(30)},
    ),
    "AWS::IAM::Group": named("GroupName", 128, Arn=account_wide("group")),
    "AWS::IAM::User": named("UserName", 64, Arn=account_wide("user")),
    "AWS::RDS::DBCluster": of_rds(
        "DBClusterIdentifier",
        63,
        "DBClusterArn",
        "cluster",
        {
            "DBClusterResourceId": made("cluster-{digest}"),
            "Endpoint.Address": made("{id}.cluster-{digest}.{region}.rds.amazonaws.com"),
            "Endpoint.Port": port,
            "ReadEndpoint.Address": made("{id}.cluster-ro-{digest}.{region}.rds.amazonaws.com"),
            **SECRET,
        },
    ),
    "AWS::RDS::DBInstance": of_rds(
        "DBInstanceIdentifier",
        63,
        "DBInstanceArn",
        "db",
        {
            "DbiResourceId": made("db-{digest}"),
            "Endpoint.Address": made("{id}.{digest}.{region}.rds.amazonaws.com"),
            "Endpoint.Port": port,
            **SECRET,
        },
    ),
    "AWS::RDS::DBParameterGroup": of_rds(
        "DBParameterGroupName", 255, "DBParameterGroupArn", "pg", {"DBParameterGroupName": ID}
    ),
    "AWS::RDS::DBSubnetGroup": of_rds("DBSubnetGroupName", 255, "DBSubnetGroupArn", "subgrp"),
    "AWS::SQS::Queue": Form(
        name=Name(property="QueueName", limit=75),  # SQS allows 80; five are left for .fifo
        identity=queue_url,
        attributes={
            "Arn": lambda scope: text(f"arn:aws:sqs:{{region}}:{{account}}:{end(1)(scope)}")(scope),
            "QueueName": end(1),
        },
    ),
    "AWS::SageMaker::Domain": Form(
        identity=lambda scope: f"d-{scope.id[:12]}",
        attributes={
            "HomeEfsFileSystemId": made("fs-{digest}"),
            "SecurityGroupIdForDomainBoundary": made("sg-{digest}"),
            "Url": text("https://{id}.studio.{region}.sagemaker.aws"),
        },
    ),
    "AWS::SageMaker::ModelPackageGroup": Form(
        name=Name(property="ModelPackageGroupName", limit=63),
        identity=text("arn:aws:sagemaker:{region}:{account}:model-package-group/{ModelPackageGroupName}"),
        attributes={
            "CreationTime": lambda _scope: datetime.now(UTC).isoformat(),
            "ModelPackageGroupStatus": "Completed",
        },
    ),
    "AWS::StepFunctions::StateMachine": Form(
        name=Name(property="StateMachineName", limit=80),
        identity=text("arn:aws:states:{region}:{account}:stateMachine:{StateMachineName}"),
        attributes={"Name": prop("StateMachineName"), "StateMachineRevisionId": "INITIAL"},
    ),
}
