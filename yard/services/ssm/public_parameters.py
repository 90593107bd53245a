"""AWS's public parameters for AMIs that moto lacks, and an AMI for each, which boots like any other here.

To add some: a row of FAMILIES. Ids are the yard's own. Sources: each owner's page on finding its AMIs, such
as "Finding Ubuntu images with AWS Systems Manager", "Neuron DLAMI User Guide", the release notes of the
DLAMIs.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import Any

from slipway.yard.endpoint import ACCOUNT
from slipway.yard.moto_backends import moto_backend

ROOT = "/aws/service/"
_lock = threading.RLock()


@dataclass(frozen=True, slots=True, kw_only=True)
class AmiFamily:
    """Parameters whose names follow a pattern, one for each choice of its parts, and their AMIs' owner."""

    pattern: str  # below ROOT
    parts: tuple[tuple[str, ...], ...] = ()
    owner: str = "137112412989"  # Amazon
    root_device: str = "/dev/sda1"

    def names(self) -> Iterator[str]:
        for chosen in product(*self.parts):
            yield ROOT + self.pattern.format(*chosen)


CANONICAL, DEBIAN, DEEP_LEARNING, WINDOWS, EKS, ECS = (
    "099720109477",
    "136693071363",
    "898082745236",
    "801119661308",
    "602401143452",
    "591542846629",
)
_PROCESSORS = ("amd64", "arm64")
_KERNELS = ("x86_64", "arm64")
FAMILIES = (
    AmiFamily(
        pattern="canonical/ubuntu/server/{}/stable/current/{}/hvm/ebs-gp2/ami-id",
        parts=(("20.04", "22.04"), _PROCESSORS),
        owner=CANONICAL,
    ),
    # Of Canonical's older releases, those that our locks pin.
    AmiFamily(
        pattern="canonical/ubuntu/server/22.04/stable/20260826/{}/hvm/ebs-gp2/ami-id",
        parts=(_PROCESSORS,),
        owner=CANONICAL,
    ),
    AmiFamily(
        pattern="canonical/ubuntu/server/24.04/stable/{}/{}/hvm/ebs-gp3/ami-id",
        parts=(("current", "20260610"), _PROCESSORS),
        owner=CANONICAL,
    ),
    AmiFamily(
        pattern="canonical/ubuntu/{}/22.04/1.29/stable/current/{}/hvm/ebs-gp2/ami-id",
        parts=(("eks", "eks-pro"), _PROCESSORS),
        owner=CANONICAL,
    ),
    AmiFamily(
        pattern="debian/release/{}/latest/{}", parts=(("10", "11", "12", "13"), _PROCESSORS), owner=DEBIAN
    ),
    AmiFamily(
        pattern="deeplearning/ami/{}/base-oss-nvidia-driver-gpu-{}/latest/ami-id",
        parts=(_KERNELS, ("amazon-linux-2023", "ubuntu-22.04", "ubuntu-24.04")),
        owner=DEEP_LEARNING,
    ),
    AmiFamily(
        pattern="ecs/optimized-ami/amazon-linux-2023/{}recommended/image_id",
        parts=(("", "arm64/", "gpu/", "neuron/"),),
        owner=ECS,
        root_device="/dev/xvda",
    ),
    AmiFamily(
        pattern="pcs/ami/dlami-base-ubuntu2404/{}/latest/ami-id",
        parts=(_KERNELS,),
        owner=DEEP_LEARNING,
    ),
    AmiFamily(
        pattern="neuron/dlami/{}/{}/latest/image_id",
        parts=(("base", "multi-framework"), ("amazon-linux-2023", "ubuntu-22.04")),
        owner=DEEP_LEARNING,
    ),
    AmiFamily(
        pattern="ami-windows-latest/Windows_Server-{}-English-{}-Base",
        parts=(("2016", "2019", "2022", "2025"), ("Core", "Full")),
        owner=WINDOWS,
    ),
    AmiFamily(
        pattern="ami-windows-latest/Windows_Server-2022-English-Full-SQL_2022_{}",
        parts=(("Enterprise", "Express", "Standard", "Web"),),
        owner=WINDOWS,
    ),
    AmiFamily(
        pattern="eks/optimized-ami/{}/amazon-linux-2023/{}/standard/recommended/image_id",
        parts=(("1.30", "1.31", "1.32", "1.33"), _KERNELS),
        owner=EKS,
    ),
)


def families() -> list[str]:
    """Return the patterns for users: * for each part that has choices."""
    return [ROOT + family.pattern.replace("{}", "*") for family in FAMILIES]


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
    for family in FAMILIES:
        for name in family.names():
            identifier = f"ami-{hashlib.sha256(f'{region} {name}'.encode()).hexdigest()[:17]}"
            if name not in parameters.keys():  # noqa: SIM118 - `in` would load, which calls this function
                backend = moto_backend("ec2", region)
                backend.amis[identifier] = Ami(
                    backend,
                    identifier,
                    name=name.removeprefix(ROOT),
                    description="a stand-in of the yard for the AMI of a public parameter",
                    owner_id=family.owner,
                    public=True,
                    architecture="arm64" if "arm64" in name else "x86_64",
                    virtualization_type="hvm",
                    root_device_type="ebs",
                    root_device_name=family.root_device,
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
