"""Runs the PCS clusters: a controller for each, and instances for the nodes that Slurm requests.

One thread looks after all of them, every second and after each request. Slurm's own requests come
through its programs (controller.py).
"""

from __future__ import annotations

import atexit
import json
import logging
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime

from slipway.yard.cloudformation.resources.recorded import records
from slipway.yard.errors import ApiError, going_on
from slipway.yard.machines import log_stream
from slipway.yard.machines.hosts import host_store, instances, reconciler
from slipway.yard.moto_backends import moto_backend
from slipway.yard.services.pcs import accounts, differences, nodes, slurm_conf
from slipway.yard.services.pcs.controller import Controller
from slipway.yard.services.pcs.slurm_conf import groups_of
from slipway.yard.services.recorded import StoredRecord

log = logging.getLogger("yard.pcs")

LOOK_S = 1.0
RETRY_S = 3.0  # until an instance for a node is requested again; minutes on AWS
MOST_ERRORS = 10  # in the description of a node group


@dataclass(slots=True, kw_only=True)
class ClusterNode:
    """One Slurm node, and its instance, if any."""

    name: str
    instance: str = ""
    tried_at: float = 0.0
    dead_at: float = 0.0  # when its host was first seen dead
    has_registered: bool = False  # the instance has registered with PCS


@dataclass(slots=True)
class RunningCluster:
    record: StoredRecord
    controller: Controller
    nodes: dict[str, ClusterNode] = field(default_factory=dict)
    errors: dict[str, list[dict[str, str]]] = field(default_factory=dict)  # node group id -> errors
    lost: dict[str, str] = field(default_factory=dict)  # node -> why it is down, not yet reported to Slurm
    is_up: bool = False
    lock: threading.RLock = field(default_factory=threading.RLock)

    def handle(self, event: str, node: str) -> None:
        """Handle a request of Slurm's programs."""
        with self.lock:
            if event == "resume":
                self._resume(node)
                return
            self._give_back(node)
            if event == "failed":  # Slurm has set it down, and would never resume it
                self._take_down(node, "it did not boot in time")

    def look(self) -> None:
        with self.lock:
            groups = groups_of(self.record)
            known = {node for group in groups for node in slurm_conf.node_group(group).nodes}
            for name in [name for name in self.nodes if name not in known]:
                self._give_back(name)
                del self.nodes[name]
            if not differences.obstacle() and not self._steer():
                return
            for group in groups:
                for name in slurm_conf.node_group(group).static:
                    self._want(name)
            for node in [node for node in self.nodes.values() if node.instance]:
                self._look_after(node)
            self._tell_losses()

    def end(self) -> None:
        with self.lock:
            for name in list(self.nodes):
                self._give_back(name)
            self.controller.stop()

    def node_of(self, instance: str) -> ClusterNode | None:
        return next((node for node in self.nodes.values() if node.instance == instance), None)

    def group_of(self, node: str) -> StoredRecord | None:
        return next(
            (group for group in groups_of(self.record) if group.name == node.rpartition("-")[0]), None
        )

    def _steer(self) -> bool:
        """Return True if the controller runs with the newest settings."""
        if not self.controller.is_there():
            return False
        wanted = slurm_conf.of_cluster(self.record, self.controller.address)
        if not wanted.nodes:  # slurmctld does not start without nodes
            return False
        if self.controller.differs(wanted):
            self.is_up = False
            self.controller.apply(wanted)
        self.is_up = self.is_up or self.controller.is_up()
        return self.is_up

    def _want(self, name: str) -> None:
        """Start a node that always runs; if Slurm runs, let Slurm request its instance."""
        node = self._node(name)
        now = time.monotonic()
        if node.instance or now - node.tried_at < RETRY_S:
            return
        node.tried_at = now
        if differences.obstacle():
            self._resume(name)
        else:
            self.controller.update_node(name, state="power_up")

    def _resume(self, name: str) -> None:
        group, node = self.group_of(name), self._node(name)
        if group is None or node.instance:
            return
        try:
            instance = nodes.launch(group)
        except ApiError as refused:
            log.warning("no instance for node %s: %s", name, refused)
            errors = self.errors.setdefault(group.facts["id"], [])
            errors.insert(0, {"code": refused.code, "message": refused.message})
            del errors[MOST_ERRORS:]
            write(
                self.record,
                name,
                status="LAUNCH_FAILED",
                reason=refused.code,
                description=refused.message,
            )
            # This requeues the node's job, so that Slurm can choose another node.
            self._take_down(name, refused.code)
            return
        node.instance, node.dead_at = instance.id, 0.0
        self.lost.pop(name, None)
        log.info("node %s of %s is instance %s", name, self.record.name, instance.id)
        node.has_registered = self.controller.introduce(name, instance)

    def _look_after(self, node: ClusterNode) -> None:
        """Take the node down if its instance ended or its host died without being released."""
        if nodes.is_there(node.instance, self.record.region):
            host = host_store.hosts.get(node.instance)
            if host is None or host.state != "dead":
                return
            node.dead_at = node.dead_at or time.monotonic()
            if time.monotonic() - node.dead_at < instances.replace_s():
                return
        lost, node.instance = node.instance, ""
        nodes.end(lost, self.record.region)
        if not node.has_registered:
            write(
                self.record,
                node.name,
                status="TERMINATED",
                reason="BOOTSTRAP_FAILED",
                description=f"instance {lost} ended before it had registered",
            )
        log.warning("node %s of %s has lost its instance %s", node.name, self.record.name, lost)
        self._take_down(node.name, f"instance {lost} is gone")

    def _take_down(self, name: str, why: str) -> None:
        self.lost[name] = why
        self._tell_losses()

    def _tell_losses(self) -> None:
        """Tell Slurm, which would wait for them, which nodes are gone; repeat it until a controller heard."""
        for name, why in list(self.lost.items()):
            is_told = self.controller.update_node(name, state="down", reason=why)
            if is_told and self.controller.update_node(name, state="power_down_force"):
                del self.lost[name]

    def _give_back(self, name: str) -> None:
        node = self.nodes.get(name)
        if node and node.instance:
            gone, node.instance = node.instance, ""
            nodes.end(gone, self.record.region)

    def _node(self, name: str) -> ClusterNode:
        return self.nodes.setdefault(name, ClusterNode(name=name))


_running: dict[str, RunningCluster] = {}  # by cluster id
_lock = threading.Lock()
_asked = threading.Event()
_started = threading.Lock()  # the first caller takes it forever


def start(record: StoredRecord) -> None:
    """Start a cluster's controller."""
    identifier = record.facts["id"]
    controller = Controller(identifier, record.name, record.region, record.given)
    made = RunningCluster(record, controller)
    with _lock:
        _running[identifier] = made
    if not differences.obstacle():
        made.controller.start(made.handle)
    if _started.acquire(blocking=False):
        atexit.register(reset)
        threading.Thread(target=_keep, name="pcs clusters", daemon=True).start()
    wake()


def stop(record: StoredRecord) -> None:
    with _lock:
        found = _running.pop(record.facts["id"], None)
    if found:
        found.end()


def find(record: StoredRecord) -> RunningCluster:
    return _running[record.facts["id"]]


def endpoints(record: StoredRecord) -> list[dict[str, str]]:
    """Return the addresses of a cluster's daemons."""
    controller = find(record).controller
    ports = {"SLURMCTLD": controller.port}
    if accounts.purge_days(record.given) is not None:
        ports["SLURMDBD"] = controller.accounts_port
    return [
        {"type": kind, "privateIpAddress": controller.address, "port": str(port)}
        for kind, port in ports.items()
    ]


def running() -> list[RunningCluster]:
    with _lock:
        return list(_running.values())


def wake() -> None:
    _asked.set()


def is_settled(cluster: StoredRecord) -> bool:
    """Return True once the controller answers and has all of the cluster's groups and queues."""
    found = _running.get(cluster.facts["id"])
    if found is None or differences.obstacle():
        return True
    wanted = slurm_conf.of_cluster(cluster, found.controller.address)
    if not wanted.nodes:
        return found.controller.is_there()
    return found.is_up and not found.controller.differs(wanted)


def errors_of(cluster: StoredRecord, record: StoredRecord) -> list[dict[str, str]]:
    """Return why a node group lacks instances, or why the cluster has no Slurm."""
    if record is cluster:
        why = differences.obstacle() if reconciler.are_kept() else ""
        return [{"code": "NoSlurmInTheYard", "message": why}] if why else []
    found = _running.get(cluster.facts["id"])
    return list(found.errors.get(record.facts["id"], ())) if found else []


def reset() -> None:
    with _lock:
        found = list(_running.values())
        _running.clear()
    for cluster in found:
        cluster.controller.stop()


def _keep() -> None:
    while True:
        _asked.wait(LOOK_S)
        _asked.clear()
        for cluster in list(_running.values()):
            with going_on(log, "cannot look after the cluster %s", cluster.record.name):
                cluster.look()


# PCS's scaling log says why a node got no instance, or lost one before it joined. User guide, "Scaling logs
# in AWS PCS". It goes to a log group if CloudFormation made a delivery to one. Here it has only failures.
LOG_TYPE = "PCS_SCALING_LOGS"
_STREAM = "AWSLogs/PCS/{}/scaling.log"


def write(cluster: StoredRecord, node: str, *, status: str, reason: str, description: str) -> None:
    said = {
        "event_timestamp": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "cluster_id": cluster.facts["id"],
        "node_name": node,
        "status_code": status,
        "reason_code": reason,
        "description": description,
    }
    stream = _STREAM.format(cluster.facts["id"])
    for group in _log_groups(cluster):
        found = moto_backend("logs", cluster.region).groups.get(group)
        if found and stream not in found.streams:
            moto_backend("logs", cluster.region).create_log_stream(group, stream)
        log_stream.put([json.dumps(said).encode()], group, stream, cluster.region)


def _log_groups(cluster: StoredRecord) -> Iterator[str]:
    region = cluster.region
    sources = {
        source.properties["Name"]
        for source in records("AWS::Logs::DeliverySource", region)
        if (source.properties["ResourceArn"], source.properties["LogType"]) == (cluster.arn, LOG_TYPE)
    }
    destinations = {
        destination.attributes.get("Arn"): str(destination.properties.get("DestinationResourceArn", ""))
        for destination in records("AWS::Logs::DeliveryDestination", region)
    }
    for delivery in records("AWS::Logs::Delivery", region):
        arn = destinations.get(delivery.properties["DeliveryDestinationArn"], "")
        if delivery.properties["DeliverySourceName"] in sources and ":log-group:" in arn:
            yield arn.partition(":log-group:")[2].removesuffix(":*")
