"""A role's session: who signs with a key that the yard gave out, and from where."""

from __future__ import annotations

from dataclasses import dataclass

from slipway.yard.endpoint import ACCOUNT


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleSession:
    role_arn: str
    role_id: str
    name: str  # an instance's id, a task's, or what AssumeRole was told
    vpc: str = ""  # in which its requests begin, where that is known: its endpoints then have a say
    address: str = ""
    instance_arn: str = ""  # of EC2, where the role came with an instance profile

    @property
    def role(self) -> str:
        return self.role_arn.rpartition("/")[2]

    @property
    def arn(self) -> str:
        return f"arn:aws:sts::{ACCOUNT}:assumed-role/{self.role}/{self.name}"

    @property
    def user_id(self) -> str:
        return f"{self.role_id}:{self.name}"
