"""The yard's own API, under /_yard: its status, faults, hosts, jobs, quotas and mails.

To add a request: a function, and its line in _HANDLERS.
"""

from __future__ import annotations

import json
import os
import resource
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from slipway.jobs.words.text import decode_json
from slipway.yard.chaos import conditions, consistency
from slipway.yard.chaos.switches import checked_seed, checked_value
from slipway.yard.endpoint import ACCESS_KEY_ID, CONTROL_PATH, CONTROL_SERVICE, HEALTH
from slipway.yard.errors import ApiError
from slipway.yard.gateway import authorization, chaos_gate, faults, moto_adapter, signatures
from slipway.yard.gateway.protocols import Reply
from slipway.yard.machines.hosts import enter, host_rows, host_store, metadata, reconciler
from slipway.yard.moto_backends import moto_backend
from slipway.yard.permissions import judging, keys, roles
from slipway.yard.services import differences, pretending, registry, stand_ins
from slipway.yard.services.functions import custom_resources
from slipway.yard.services.pcs import differences as slurm_differences
from slipway.yard.services.sagemaker.training import api as training_jobs
from slipway.yard.services.service_quotas import quotas
from slipway.yard.services.sns import delivery, mail, subscriptions
from slipway.yard.services.ssm import sessions

LARGEST_BODY = 2**24
LONGEST_WAIT_S = 8.0  # the client gives up after slipway.yard.endpoint.TIMEOUT_S

_STARTED = time.monotonic()


def control(environ: dict[str, Any]) -> Reply:
    path = environ["PATH_INFO"][len(CONTROL_PATH) :]
    if path.startswith(custom_resources.PATH):
        # A custom resource's function answers here, unsigned: the path itself is the secret, as on AWS.
        is_put = environ["REQUEST_METHOD"] == "PUT"
        if is_put and custom_resources.receive(path, environ["wsgi.input"].read(_length(environ))):
            return _reply(200, None)
        return _reply(403, {"message": "no custom resource awaits a response at this address"})
    handler = _HANDLERS.get((environ["REQUEST_METHOD"], path))
    if handler is None:
        known = ", ".join(f"{method} {CONTROL_PATH}{path}" for method, path in _HANDLERS)
        return _reply(404, {"message": f"there is no {environ['REQUEST_METHOD']} {path}; there are {known}"})
    body = environ["wsgi.input"].read(_length(environ))
    try:
        if path != HEALTH:
            _check_signature(environ, body)
        return _reply(200, handler(decode_json(body or b"null")))
    except ApiError as error:
        return _reply(error.status, {"message": error.message})
    except (ValueError, TypeError) as error:
        return _reply(400, {"message": str(error)})


def _length(environ: dict[str, Any]) -> int:
    return min(int(environ.get("CONTENT_LENGTH") or 0), LARGEST_BODY)


def _check_signature(environ: dict[str, Any], body: bytes) -> None:
    """Raise ApiError unless the yard's own key signed the request; jobs and hosts do not have it."""
    signature = signatures.read(environ)
    key = keys.find(signature.access_key_id)
    if key.access_key_id != ACCESS_KEY_ID or signature.service != CONTROL_SERVICE:
        raise ApiError("AccessDenied", "this request must be signed with the yard's own key", status=403)
    signatures.check(environ, signature, key, body)


def _reply(status: int, body: object) -> Reply:
    return Reply(
        status=status, headers=(("Content-Type", "application/json"),), body=json.dumps(body).encode()
    )


def _status(_body: object) -> dict[str, Any]:
    from slipway.yard.cloudformation.resources.registry import fidelities

    return {
        "pid": os.getpid(),
        "uptime_s": round(time.monotonic() - _STARTED),
        "memory_mib": _memory_mib(),
        "stacks": _stacks(),
        "resource_types": {name: fidelity.value for name, fidelity in sorted(fidelities().items())},
        "refused": [
            f"{service}:{name}: {why}" for (service, name), why in sorted(pretending.REASONS.items())
        ],
        "less_than_aws": list(pretending.LESS_THAN_AWS),
        "own_services": sorted(registry.SERVICES),
        "own_operations": sorted(f"{service}:{operation}" for service, operation in registry.OPERATIONS),
        "stand_ins": stand_ins.described(),
        "not_judged": list(judging.NOT_JUDGED),
        "batch_jobs": differences.batch_jobs(),
        "hosts": host_rows.described(),
        "undelivered": delivery.undelivered(),
        "bakes": differences.bakes(),
        "slurm": slurm_differences.described(),
        "training_jobs": differences.training_jobs(),
    }


def _memory_mib() -> int:
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except FileNotFoundError:  # macOS: the peak, in bytes
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 2**20
    return pages * resource.getpagesize() // 2**20


def _stacks() -> list[dict[str, str]]:
    """List the stacks of every region used since the yard started."""
    from slipway.yard.gateway.pipeline import regions_used

    describe = registry.answerer_of("cloudformation", "DescribeStacks")
    assert describe
    found = [
        {"region": region, "name": stack["StackName"], "status": str(stack["StackStatus"])}
        for region in sorted(regions_used("cloudformation"))
        for stack in describe({}, region)["Stacks"]
    ]
    return sorted(found, key=lambda stack: (stack["region"], stack["name"]))


def _add_fault(rule: object) -> list[dict[str, Any]]:
    faults.add_rule(faults.decode(rule))
    return faults.listed()


def _clear_faults(_body: object) -> list[dict[str, Any]]:
    faults.clear_rules()
    return faults.listed()


def _switch(asked: object) -> dict[str, Any]:
    """Set the faults of `values`, a number by name; a `seed` restarts all random draws."""
    if not isinstance(asked, Mapping) or not isinstance(asked.get("values"), Mapping):
        raise ValueError("give the faults as 'values': an object that maps a fault's name to a number")
    values = dict(checked_value(str(name), float(value)) for name, value in asked["values"].items())
    seed = None if asked.get("seed") is None else checked_seed(str(asked["seed"]))
    conditions.switch(values, seed=seed)
    consistency.catch_up()  # shows hidden changes if that fault is now off
    reconciler.wake_if_kept()
    return conditions.described()


def _kill_node(asked: object) -> str:
    from slipway.yard.services.batch.api.jobs import kill_node
    from slipway.yard.services.pcs.killing import kill_node_of_slurm
    from slipway.yard.services.ssm.mpi_jobs import kill_node_of_command

    if not isinstance(asked, Mapping) or not isinstance(asked.get("node"), int):
        raise ValueError("give the job's id as 'job' and the number of one of its nodes as 'node'")
    job, node = str(asked.get("job")), asked["node"]
    if found := training_jobs.find_running(job):
        return training_jobs.kill_instance(found, node)
    return kill_node_of_command(job, node) or kill_node_of_slurm(job, node) or kill_node(job, node)


def _kill_host(asked: object) -> str:
    host = host_store.find(_host_named(asked))
    reconciler.kill(host)
    return host.instance.name


def _interrupt_host(asked: object) -> str:
    """Give notice to the host's instance, as EC2 does before it reclaims a Spot instance."""
    from slipway.yard.services.ec2 import template_launch

    host = host_store.find(_host_named(asked))
    instance = moto_backend("ec2", host.instance.region).get_instance(host.instance.id)
    ends_at = template_launch.interrupt(instance, host.instance.region)
    return f"{host.instance.name} ends at {ends_at:%H:%M:%S} UTC"


def _reboot_host(asked: object) -> str:
    host = host_store.find(_host_named(asked))
    reconciler.reboot(host)
    return host.instance.name


def _stand_in(asked: object) -> str:
    from slipway.yard.services.ec2 import empty_amis

    if not isinstance(asked, Mapping):
        raise ValueError("give the AMI's name as 'image' and its Region as 'region'")
    return empty_amis.register(str(asked.get("image")), str(asked.get("region")))


def _grant_quota(asked: object) -> str | list[str]:
    """Set a quota, or each of a list; groups then launch the instances that the old quota prevented."""
    names = [_granted(quota) for quota in asked] if isinstance(asked, list) else _granted(asked)
    reconciler.wake()
    return names


def _granted(asked: object) -> str:
    if not isinstance(asked, Mapping) or not isinstance(asked.get("vcpus"), int):
        raise ValueError("give the quota's code as 'code' and a number as 'vcpus'")
    code = str(asked.get("code"))
    quotas.grant(code, asked["vcpus"], asked.get("region"))
    return quotas.name_of(code)


def _await_hosts(asked: object) -> bool:
    """Return True once no host is starting or ending."""
    if not isinstance(asked, Mapping):
        raise ValueError("give a time in seconds as 'timeout_s'")
    return reconciler.wait_until_settled(min(float(asked.get("timeout_s", 0)), LONGEST_WAIT_S))


def _host_named(asked: object) -> str:
    if not isinstance(asked, Mapping):
        raise ValueError("give the host's name as 'host'")
    return str(asked.get("host"))


def _confirm_mail(asked: object) -> int:
    if not isinstance(asked, Mapping):
        raise ValueError("give the address as 'address'")
    return subscriptions.confirm(str(asked.get("address")))


def _await_job(asked: object) -> str:
    from slipway.yard.services.batch.job_store import wait_until_final

    if not isinstance(asked, Mapping):
        raise ValueError("give the job's id as 'job'")
    return wait_until_final(str(asked.get("job")), min(float(asked.get("timeout_s", 0)), LONGEST_WAIT_S))


def _reset(_body: object) -> None:
    """Forget all resources, faults and keys, as in a new yard."""
    faults.clear_rules()
    chaos_gate.reset()
    keys.reset()
    metadata.reset()
    judging.reset()
    authorization.set_caller_role("")
    registry.reset()
    quotas.reset()
    moto_adapter.reset()
    reconciler.reset()
    stand_ins.reset()


_HANDLERS: Mapping[tuple[str, str], Callable[[object], object]] = {
    ("GET", HEALTH): lambda _body: {"pid": os.getpid()},  # unsigned: it tells no more than `ps`
    ("GET", "/status"): _status,
    ("GET", "/faults"): lambda _body: faults.listed(),
    ("POST", "/faults"): _add_fault,
    ("DELETE", "/faults"): _clear_faults,
    ("GET", "/switches"): lambda _body: conditions.described(),
    ("POST", "/switches"): _switch,
    ("POST", "/kill-node"): _kill_node,
    ("POST", "/stand-in"): _stand_in,
    ("POST", "/grant-quota"): _grant_quota,
    ("POST", "/await-hosts"): _await_hosts,
    ("POST", "/await-job"): _await_job,
    ("POST", "/await-training"): training_jobs.await_job,
    ("GET", "/hosts"): lambda _body: host_rows.hosts(),
    ("POST", "/enter-host"): lambda asked: enter.target(host_store.find(_host_named(asked))),
    ("POST", "/enter-session"): sessions.enter_session,
    ("POST", "/interrupt-host"): _interrupt_host,
    ("POST", "/interrupt-training"): training_jobs.interrupt_job,
    ("POST", "/kill-host"): _kill_host,
    ("POST", "/reboot-host"): _reboot_host,
    ("GET", "/mail"): lambda _body: mail.listed(),
    ("POST", "/confirm-mail"): _confirm_mail,
    ("POST", "/caller-role"): lambda asked: authorization.set_caller_role(str(asked or "")),
    ("GET", "/denied"): lambda _body: judging.denied(),
    ("GET", "/permissions"): lambda _body: roles.used(),
    ("POST", "/reset"): _reset,
}
