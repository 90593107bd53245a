"""An instance as the yard's hosts know it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class HostInstance:
    """An instance as EC2 has it. Equal ones need nothing done."""

    id: str
    region: str
    group: str
    cluster: str
    vpc: str
    subnet: str
    address: str
    prefix_length: int  # of the VPC: all of it is one link here
    hostname: str
    image: str
    instance_type: str
    life_cycle: str  # how it was bought: on-demand, spot or capacity-block
    zone: str
    user_data: str  # base64; empty where there is none
    profile_arn: str
    role: str  # of the profile
    launched_at: str
    key_name: str
    tags: Mapping[str, str]
    is_service: bool = False  # no instance, but a host of service_hosts.py

    @property
    def name(self) -> str:
        return self.hostname.partition(".")[0]
