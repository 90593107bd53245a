"""RDS: database instances, clusters and subnet groups. No database runs behind one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from slipway.yard.cloudformation.resources.api import ApiResource, call, find, setting, shaped
from slipway.yard.cloudformation.resources.names import Name
from slipway.yard.cloudformation.resources.provider import (
    Context,
    Fidelity,
    Properties,
    Provider,
    Resource,
)
from slipway.yard.cloudformation.resources.scope import ID, ResourceScope, live, prop, text
from slipway.yard.cloudformation.resources.tags import tags

RENAMES = {"VPCSecurityGroups": "VpcSecurityGroupIds"}


def engine(scope: ResourceScope) -> str | None:
    """RDS takes MySQL for mysql."""
    given = scope.properties.get("Engine")
    return given and str(given).lower()


def port(scope: ResourceScope) -> str:
    """An attribute of CloudFormation is text."""
    endpoint = scope.live.get("Endpoint")
    found = endpoint.get("Port") if isinstance(endpoint, Mapping) else scope.live.get("Port")
    return str(found or "")


INSTANCE = ApiResource(
    service="rds",
    name=Name(property="DBInstanceIdentifier", limit=63, lower=True),
    create_call=shaped("create_db_instance", renames=RENAMES, Engine=engine),
    identity=prop("DBInstanceIdentifier"),
    describe=find("describe_db_instances", "DBInstances.0", DBInstanceIdentifier=ID),
    attributes={
        "DBInstanceArn": live("DBInstanceArn"),
        "DbiResourceId": live("DbiResourceId"),
        "Endpoint.Address": live("Endpoint.Address", ""),
        "Endpoint.Port": port,
        "MasterUserSecret.SecretArn": live("MasterUserSecret.SecretArn"),
    },
    settings=(
        setting(
            *("AllocatedStorage", "BackupRetentionPeriod", "DBInstanceClass", "DeletionProtection"),
            *("EngineVersion", "MasterUserPassword", "MultiAZ", "VPCSecurityGroups"),
            put=call(
                "modify_db_instance",
                DBInstanceIdentifier=ID,
                ApplyImmediately=True,
                AllocatedStorage=prop("AllocatedStorage"),
                BackupRetentionPeriod=prop("BackupRetentionPeriod"),
                DBInstanceClass=prop("DBInstanceClass"),
                DeletionProtection=prop("DeletionProtection"),
                MasterUserPassword=prop("MasterUserPassword"),
                MultiAZ=prop("MultiAZ"),
                VpcSecurityGroupIds=prop("VPCSecurityGroups"),
            ),
            on_create=False,
        ),
        tags(
            "add_tags_to_resource",
            "remove_tags_from_resource",
            ResourceName=text("arn:aws:rds:{region}:{account}:db:{id}"),
        ),
    ),
    delete_call=call("delete_db_instance", DBInstanceIdentifier=ID, SkipFinalSnapshot=True),
    accepts=frozenset({"Tags", "DeleteAutomatedBackups", "AllowMajorVersionUpgrade", "ApplyImmediately"}),
)

CLUSTER = ApiResource(
    service="rds",
    name=Name(property="DBClusterIdentifier", limit=63, lower=True),
    create_call=shaped("create_db_cluster", Engine=engine),
    identity=prop("DBClusterIdentifier"),
    describe=find("describe_db_clusters", "DBClusters.0", DBClusterIdentifier=ID),
    attributes={
        "DBClusterArn": live("DBClusterArn"),
        "DBClusterResourceId": live("DbClusterResourceId"),
        "Endpoint.Address": live("Endpoint", ""),
        "Endpoint.Port": port,
        "ReadEndpoint.Address": live("ReaderEndpoint", ""),
        "MasterUserSecret.SecretArn": live("MasterUserSecret.SecretArn"),
    },
    settings=(
        tags(
            "add_tags_to_resource",
            "remove_tags_from_resource",
            ResourceName=text("arn:aws:rds:{region}:{account}:cluster:{id}"),
        ),
    ),
    delete_call=call("delete_db_cluster", DBClusterIdentifier=ID, SkipFinalSnapshot=True),
    accepts=frozenset({"Tags", "DeleteAutomatedBackups"}),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Database:
    """A database that is new, or begins as a copy: `sources` says which property makes it begin so."""

    new: ApiResource
    sources: Mapping[str, ApiResource]
    fidelity: Fidelity = Fidelity.MOTO

    def create(self, context: Context, properties: Properties) -> Resource:
        rows = (row for name, row in self.sources.items() if properties.get(name))
        return next(rows, self.new).create(context, properties)

    def update(self, context: Context, resource: Resource, old: Properties, new: Properties) -> Resource:
        return self.new.update(context, resource, old, new)

    def delete(self, context: Context, resource: Resource, properties: Properties) -> None:
        self.new.delete(context, resource, properties)

    def read(self, context: Context, resource: Resource, properties: Properties) -> Properties | None:
        return self.new.read(context, resource, properties)


# What a copy has from its source; a template may say it as well, and CloudFormation leaves it out.
INHERITED = frozenset({"Engine", "MasterUsername", "MasterUserPassword", "DBName", "StorageEncrypted"})


def copied(row: ApiResource, operation: str, **renames: str) -> ApiResource:
    """Return the row of a database that this call makes from another, or from what was saved of one."""
    return replace(
        row,
        create_call=shaped(operation, renames={**RENAMES, **renames}),
        accepts=row.accepts | INHERITED | {"AllocatedStorage", "BackupRetentionPeriod", "EngineVersion"},
    )


DATABASE_INSTANCE = Database(
    new=INSTANCE,
    sources={
        "SourceDBInstanceIdentifier": copied(INSTANCE, "create_db_instance_read_replica"),
        "DBSnapshotIdentifier": copied(INSTANCE, "restore_db_instance_from_db_snapshot"),
    },
)
DATABASE_CLUSTER = Database(
    new=CLUSTER,
    sources={"SnapshotIdentifier": copied(CLUSTER, "restore_db_cluster_from_snapshot")},
)

SUBNET_GROUP = ApiResource(
    service="rds",
    name=Name(property="DBSubnetGroupName", limit=255, lower=True),
    create_call=shaped("create_db_subnet_group"),
    identity=prop("DBSubnetGroupName"),
    describe=find("describe_db_subnet_groups", "DBSubnetGroups.0", DBSubnetGroupName=ID),
    attributes={"DBSubnetGroupArn": live("DBSubnetGroupArn")},
    settings=(
        setting(
            "DBSubnetGroupDescription",
            "SubnetIds",
            put=shaped("modify_db_subnet_group", DBSubnetGroupName=ID, Tags=None),
            on_create=False,
        ),
        tags(
            "add_tags_to_resource",
            "remove_tags_from_resource",
            ResourceName=text("arn:aws:rds:{region}:{account}:subgrp:{id}"),
        ),
    ),
    delete_call=call("delete_db_subnet_group", DBSubnetGroupName=ID),
)


def parameters(scope: ResourceScope) -> None:
    """Set what the template names; a parameter that it no longer names goes back to its default."""
    values: Mapping[str, object] = scope.properties.get("Parameters") or {}
    before: Mapping[str, object] = scope.before.get("Parameters") or {}
    listed = [{"ParameterName": name, "ParameterValue": str(value)} for name, value in values.items()]
    gone = [{"ParameterName": name, "ApplyMethod": "pending-reboot"} for name in before if name not in values]
    if listed:
        applied = [{**one, "ApplyMethod": "pending-reboot"} for one in listed]
        scope.send("modify_db_parameter_group", DBParameterGroupName=scope.id, Parameters=applied)
    if gone:
        scope.send("reset_db_parameter_group", DBParameterGroupName=scope.id, Parameters=gone)


PARAMETER_GROUP = ApiResource(
    service="rds",
    name=Name(property="DBParameterGroupName", limit=255, lower=True),
    create_call=shaped("create_db_parameter_group", renames={"Family": "DBParameterGroupFamily"}),
    identity=prop("DBParameterGroupName"),
    describe=find("describe_db_parameter_groups", "DBParameterGroups.0", DBParameterGroupName=ID),
    attributes={"DBParameterGroupName": ID, "DBParameterGroupArn": live("DBParameterGroupArn")},
    settings=(
        setting("Parameters", put=parameters),
        tags(
            "add_tags_to_resource",
            "remove_tags_from_resource",
            ResourceName=text("arn:aws:rds:{region}:{account}:pg:{id}"),
        ),
    ),
    delete_call=call("delete_db_parameter_group", DBParameterGroupName=ID),
)

PROVIDERS: Mapping[str, Provider] = {
    "AWS::RDS::DBInstance": DATABASE_INSTANCE,
    "AWS::RDS::DBCluster": DATABASE_CLUSTER,
    "AWS::RDS::DBParameterGroup": PARAMETER_GROUP,
    "AWS::RDS::DBSubnetGroup": SUBNET_GROUP,
}
