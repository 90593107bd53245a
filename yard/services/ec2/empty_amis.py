"""Registers empty AMIs on request: a cluster can then be deployed without minutes of baking.

Hosts boot from this machine's files, so the AMI itself is not tested. To add an AMI: a line of IMAGES.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from slipway.jobs.words.images.ami_locks import ARCHITECTURE
from slipway.jobs.words.images.amis import ami_parameter
from slipway.jobs.words.images.containers import manifest_parameter
from slipway.yard.moto_backends import moto_backend

# Versions for the AMI's manifest; preflight compares them with a container's lock and the kind of cluster.
IMAGES: Mapping[str, Mapping[str, object]] = {
    "cpu-mpi": {},
    "gaudi-ecs": {"synapseai": "1.18.0", "driver": "1.18.0-524", "ecs-agent": "1.105.1-1"},
    "gaudi-mpi": {},
    "neuron-slurm": {},
}


def register(image: str, region: str) -> str:
    """Register the AMI, and write the SSM parameters that a bake writes; return its id."""
    if image not in IMAGES:
        raise ValueError(f"there is no AMI '{image}' to stand in for; there are {', '.join(IMAGES)}")
    made = moto_backend("ec2", region).register_image(
        name=f"slipway-{image}-stand-in", description="a stand-in of the yard: nothing was baked"
    )
    made.root_device_name = "/dev/sda1"  # as in Ubuntu's AMIs, our parent images
    made.architecture = ARCHITECTURE
    manifest = json.dumps({"image": image, **IMAGES[image], "stand_in": True})
    name = ami_parameter(image)
    for parameter, value in ((name, made.id), (manifest_parameter(name), manifest)):
        moto_backend("ssm", region).put_parameter(
            name=parameter,
            description="a stand-in of the yard",
            value=value,
            parameter_type="String",
            allowed_pattern="",
            keyid="",
            overwrite=True,
            tags=[],
            data_type="text",
            tier="Standard",
            policies=None,
        )
    return str(made.id)
