"""AWS's public parameters for AMIs that moto lacks, and an AMI for each, which boots like any other here.

To add some: a pattern of FAMILIES. Ids are the yard's own. Sources: each owner's page on finding its AMIs,
such as "Finding Ubuntu images with AWS Systems Manager", "Neuron DLAMI User Guide", the release notes of the
DLAMIs.
"""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import product
from typing import Any

from slipway.yard.endpoint import ACCOUNT
from slipway.yard.moto_backends import moto_backend

ROOT = "/aws/service/"
_lock = threading.RLock()


CANONICAL, DEBIAN, DEEP_LEARNING, WINDOWS, EKS, ECS = (
    "099720109477",
    "136693071363",
    "898082745236",
    "801119661308",
    "602401143452",
    "591542846629",
)
# By the AMIs' owner: the names of parameters, below ROOT. In braces: the choices for a part of a name.
FAMILIES: Mapping[str, tuple[str, ...]] = {
    CANONICAL: (
        "canonical/ubuntu/server/{20.04,22.04}/stable/current/{amd64,arm64}/hvm/ebs-gp2/ami-id",
        # Of Canonical's older releases, those that our locks pin.
        "canonical/ubuntu/server/22.04/stable/20260826/{amd64,arm64}/hvm/ebs-gp2/ami-id",
        "canonical/ubuntu/server/24.04/stable/{current,20260610}/{amd64,arm64}/hvm/ebs-gp3/ami-id",
        "canonical/ubuntu/{eks,eks-pro}/22.04/1.29/stable/current/{amd64,arm64}/hvm/ebs-gp2/ami-id",
    ),
    DEBIAN: ("debian/release/{10,11,12,13}/latest/{amd64,arm64}",),
    DEEP_LEARNING: (
        (
            "deeplearning/ami/{x86_64,arm64}/base-oss-nvidia-driver-gpu-"
            "{amazon-linux-2023,ubuntu-22.04,ubuntu-24.04}/latest/ami-id"
        ),
        "pcs/ami/dlami-base-ubuntu2404/{x86_64,arm64}/latest/ami-id",
        "neuron/dlami/{base,multi-framework}/{amazon-linux-2023,ubuntu-22.04}/latest/image_id",
    ),
    ECS: ("ecs/optimized-ami/amazon-linux-2023/{,arm64/,gpu/,neuron/}recommended/image_id",),
    WINDOWS: (
        "ami-windows-latest/Windows_Server-{2016,2019,2022,2025}-English-{Core,Full}-Base",
        "ami-windows-latest/Windows_Server-2022-English-Full-SQL_2022_{Enterprise,Express,Standard,Web}",
    ),
    EKS: (
        (
            "eks/optimized-ami/{1.30,1.31,1.32,1.33}/amazon-linux-2023/{x86_64,arm64}"
            "/standard/recommended/image_id"
        ),
    ),
}


def families() -> list[str]:
    """Return the patterns for users: * for each part that has choices."""
    return [ROOT + re.sub("{.*?}", "*", pattern) for patterns in FAMILIES.values() for pattern in patterns]


def owned_names() -> Iterator[tuple[str, str]]:
    """Return the owner of its AMI with each parameter's name."""
    for owner, patterns in FAMILIES.items():
        for pattern in patterns:
            for parts in product(*(part.split(",") for part in re.split("[{}]", pattern))):
                yield owner, ROOT + "".join(parts)


@lru_cache(maxsize=1)
def show() -> None:
    """Patch moto to find these public parameters like its own, and not to list either as the account's."""
    from moto.ssm.models import ParameterDict

    motos = ParameterDict._check_loading_status

    def load(self: Any, key: str) -> None:
        motos(self, key)
        if key.startswith(ROOT):
            with _lock:
                _load(self)

    def own(self: Any) -> Iterator[str]:
        return (name for name in list(self.keys()) if not name.startswith(ROOT))

    def below(self: Any, path: str, recursive: bool) -> Iterator[str]:
        self._check_loading_status(path)
        start = path if path.endswith("/") else f"{path}/"
        for name in list(self.keys()) if path.startswith(ROOT) else own(self):
            if name.startswith(start) and (recursive or "/" not in name[len(start) :]):
                yield name

    ParameterDict._check_loading_status = load
    ParameterDict.__iter__ = own
    ParameterDict.get_keys_beginning_with = below


def _load(parameters: Any) -> None:
    from moto.ec2.models.amis import Ami

    region = parameters.region_name
    for owner, name in owned_names():
        identifier = f"ami-{hashlib.sha256(f'{region} {name}'.encode()).hexdigest()[:17]}"
        if name not in parameters.keys():  # noqa: SIM118 - `in` would load, which calls this function
            backend = moto_backend("ec2", region)
            backend.amis[identifier] = Ami(
                backend,
                identifier,
                name=name.removeprefix(ROOT),
                description="a stand-in of the yard for the AMI of a public parameter",
                owner_id=owner,
                public=True,
                architecture="arm64" if "arm64" in name else "x86_64",
                virtualization_type="hvm",
                root_device_type="ebs",
                root_device_name="/dev/xvda" if owner == ECS else "/dev/sda1",
                platform="windows" if "windows" in name else None,
                hypervisor="xen",
                region_name=f"{backend.region_name}a",
            )
            parameters.setdefault(name, [_parameter(name, identifier)])


def _parameter(name: str, value: str) -> Any:
    from moto.core.utils import utcnow
    from moto.ssm.models import Parameter

    return Parameter(
        account_id=ACCOUNT,
        name=name,
        value=value,
        parameter_type="String",
        description=None,
        allowed_pattern=None,
        keyid=None,
        last_modified_date=utcnow(),
        version=1,
        data_type="aws:ec2:image",
    )
