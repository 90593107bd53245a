"""What a new node of HyperPod is given: a script and a zip, below a prefix of their own in the CDK's bucket.

The zip holds the steps of our machine images' components that install what jobs need; what builds a machine
(drivers, EFA, Slurm itself) is left out, for HyperPod's AMI has its own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import yaml

from slipway.infra.declare.checks.components import steps_of
from slipway.infra.declare.component_files import read_component
from slipway.infra.declare.installed import CONTAINERS
from slipway.infra.declare.types import HyperPodCluster
from slipway.infra.patterns.images.payload import payload_of, zipped
from slipway.infra.patterns.slurm.scheduler import SLURM_SETTINGS
from slipway.jobs.words.catalogue.accelerators import CPU, device_of
from slipway.jobs.words.catalogue.instances import instance_type
from slipway.jobs.words.images.ami_locks import lock_parameters
from slipway.jobs.words.installation import PACKAGE
from slipway.jobs.words.slurm.hyperpod import CONTROLLER_GROUP, node_parameter

SCRIPT = PACKAGE / "infra" / "hyperpod" / "on_init_complete.sh"
SET_UP = SCRIPT.with_name("set_up.sh")
# CreateCluster's reference asks for a path that begins with sagemaker-: AWS's managed policy reads no other
# bucket. The role here names this prefix itself.
_PREFIX = "sagemaker-lifecycle"
_PAYLOAD = "PAYLOAD_SHA256"  # in the script

# Component and step, in order.
_EVERY_NODE = (
    ("base-apt", "TrustKeys"),
    ("python-venv", "InstallPythonFromVendor"),
    ("python-venv", "InstallRequirements"),
    ("slurm-node", "AddUser"),
    ("slurm-node", "Install"),
)
_OF_DEVICE: Mapping[str, tuple[tuple[str, str], ...]] = {
    CPU: (),
    "neuron": tuple(
        ("neuron-training", step) for step in ("DownloadFromVendor", "ProveFromVendor", "InstallFromVendor")
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Lifecycle:
    """Holds the files of one cluster's nodes; the same declaration and checkout give the same bytes."""

    script: bytes
    payload: bytes

    @property
    def payload_digest(self) -> str:
        return sha256(self.payload).hexdigest()

    @property
    def script_digest(self) -> str:
        return sha256(self.script).hexdigest()

    def prefix(self, cluster: str) -> str:
        """Return where they lie: another content is another folder, so that a node reads nothing old."""
        both = sha256(self.script + self.payload).hexdigest()
        return f"{_PREFIX}/{cluster}/{both[:16]}/"


def lifecycle_of(cluster: HyperPodCluster) -> Lifecycle:
    own = {
        "set_up.sh": SET_UP.read_bytes(),
        "slurm.conf": "".join(f"{name}={value}\n" for name, value in SLURM_SETTINGS.items()).encode(),
        "region": cluster.region.encode(),
        "node-parameter": node_parameter(cluster.name).encode(),
        "controller-group": CONTROLLER_GROUP.encode(),
        **{f"steps/{name}": text.encode() for name, text in _steps(cluster).items()},
    }
    with ZipFile(BytesIO(payload_of(cluster.machine_image).content)) as archive:
        shared = {name: archive.read(name) for name in archive.namelist() if not name.startswith("boot/")}
    payload = zipped({**shared, **{f"hyperpod/{name}": content for name, content in own.items()}})
    script = SCRIPT.read_text(encoding="utf-8").replace(_PAYLOAD, sha256(payload).hexdigest())
    return Lifecycle(script=script.encode(), payload=payload)


def write_files(folder: Path, lifecycle: Lifecycle) -> tuple[Path, Path]:
    """Write the script and the payload for the CDK, and return where they are."""
    script, payload = folder / SCRIPT.name, folder / "payload.zip"
    script.write_bytes(lifecycle.script)
    payload.write_bytes(lifecycle.payload)
    return script, payload


def _steps(cluster: HyperPodCluster) -> dict[str, str]:
    """Return each step as a script that stands alone, named so that names sort as steps run."""
    device = device_of(instance_type(cluster.instance_type))
    values = lock_parameters(CONTAINERS, cluster.machine_image)
    return {
        f"{number:02}-{component}-{step.lower()}.sh": _filled(_script(_step(component, step)), values)
        for number, (component, step) in enumerate((*_EVERY_NODE, *_OF_DEVICE[device]))
    }


def _step(component: str, name: str) -> Mapping[str, Any]:
    steps = steps_of(yaml.safe_load(read_component(component)))
    (found,) = (step for phase, step in steps if phase == "build" and step["name"] == name)
    return found


def _script(step: Mapping[str, Any]) -> str:
    if step["action"] == "ExecuteBash":
        (command,) = step["inputs"]["commands"]
        return str(command)
    assert step["action"] == "CreateFile", f"no step of HyperPod's is a {step['action']}"
    return "set -euo pipefail\n" + "".join(map(_created, step["inputs"]))


def _created(file: Mapping[str, Any]) -> str:
    path, mode = file["path"], f"{file['permissions']:04o}"
    return f"cat >'{path}' <<'SLIPWAY_FILE'\n{file['content']}SLIPWAY_FILE\nchmod {mode} '{path}'\n"


def _filled(text: str, values: Mapping[str, str]) -> str:
    return re.sub(r"\{\{ *(\w+) *\}\}", lambda found: values[found[1]], text)
