"""Who asks, and which principals of a policy name them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from slipway.yard.permissions.policies import Who


class Named(Enum):
    """Tell how a statement names the caller, which decides if a resource's policy is enough."""

    NOT = "not"
    ACCOUNT = "by the account, which leaves the decision to identity policies"
    ROLE = "by the role: the role's boundary still limits it"
    SELF = "by the session, the service or everybody"


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """A role's session, or an AWS service that acts on its own (`service`), such as events.amazonaws.com."""

    account: str
    arn: str = ""  # of the session: arn:aws:sts::…:assumed-role/ROLE/SESSION
    role_arn: str = ""
    role_id: str = ""
    service: str = ""

    @property
    def words(self) -> str:
        return self.arn or self.service


def named(who: Who, caller: Caller) -> Named:
    """Say how the principal element names the caller."""
    if not who.is_negated:
        return _named(who, caller)
    # NotPrincipal: to exempt a session, its role and its account have to be listed, too.
    return Named.NOT if _named(who, caller) is not Named.NOT else Named.SELF


def _named(who: Who, caller: Caller) -> Named:
    by_aws = who.named.get("AWS", ())
    if "*" in by_aws or "*" in who.named.get("*", ()):
        return Named.SELF
    if caller.service:
        return Named.SELF if caller.service in who.named.get("Service", ()) else Named.NOT
    if caller.arn in by_aws or (caller.role_id and caller.role_id in by_aws):
        return Named.SELF
    if caller.role_arn in by_aws:
        return Named.ROLE
    account = {caller.account, f"arn:aws:iam::{caller.account}:root"}
    return Named.ACCOUNT if account & set(by_aws) else Named.NOT
