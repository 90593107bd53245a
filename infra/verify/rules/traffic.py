"""Rules for security groups: no traffic in from anywhere, and only HTTPS out to anywhere; also for ssh trust.

A range is "anywhere" if it is wider than the largest private one: half of the internet is as open as all of
it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from ipaddress import ip_network

from slipway.infra.verify.rules.template import (
    Finding,
    Properties,
    Source,
    Template,
    as_list,
    checks,
    logical_id,
    resources,
    rule,
)

_GROUP = "AWS::EC2::SecurityGroup"
_WIDEST_PREFIX = 8
_SSH = 22
_HTTPS = 443


def _rules(way: str) -> Source:
    """Return the source of a way's rules, Ingress or Egress: those by themselves, then those in a group."""

    def rules(template: Template) -> Iterator[tuple[str, Properties]]:
        yield from resources(template, f"AWS::EC2::SecurityGroup{way}")
        for name, properties in resources(template, _GROUP):
            yield from ((name, rule) for rule in as_list(properties.get(f"SecurityGroup{way}")))

    return rules


@checks("traffic-no-internet-in", source=_rules("Ingress"))
def nothing_in_from_anywhere(rule: Properties) -> Iterator[str]:
    if _is_anywhere(rule):
        yield "lets the internet in; name a group or a private range"


@checks("traffic-no-ssh", source=_rules("Ingress"))
def no_ssh(rule: Properties) -> Iterator[str]:
    """Refuse port 22 by address unless it is opened alone, as a declaration asks for it."""
    by_address = "CidrIp" in rule or "CidrIpv6" in rule
    first, last = rule.get("FromPort", 0), rule.get("ToPort", 65535)
    opened = rule.get("IpProtocol") == "-1" or first <= _SSH <= last
    if by_address and opened and (first, last) != (_SSH, _SSH):
        yield "opens port 22 and others; nodes are reached by Session Manager"


@checks("traffic-https-out", source=_rules("Egress"))
def only_https_out_to_anywhere(rule: Properties) -> Iterator[str]:
    ports = (rule.get("FromPort"), rule.get("ToPort"))
    if _is_anywhere(rule) and ports != (_HTTPS, _HTTPS):
        yield "lets more than HTTPS out to the internet"


@checks("traffic-egress-said", _GROUP)
def egress_is_said(properties: Properties) -> Iterator[str]:
    """Require a list of egress: EC2 gives a group without one a rule that allows everything."""
    if not properties.get("SecurityGroupEgress"):
        yield "lists no egress, which allows all of it; list what is needed"


def _is_anywhere(rule: Properties) -> bool:
    """Return True if the range is wide. A range known only at deployment is our own network."""
    ranges = (rule.get("CidrIp"), rule.get("CidrIpv6"))
    return any(
        ip_network(each).prefixlen < _WIDEST_PREFIX for each in ranges if isinstance(each, str) and each
    )


# Nodes trust each other by a secret that only they can read, and by known host keys. These words of
# ssh_config(5) turn the check off, or name a file of known hosts that keeps nothing.
_UNCHECKED = re.compile(
    r"StrictHostKeyChecking[\s=\"']*(no|off|accept-new)\b|UserKnownHostsFile[\s=\"']*/dev/null", re.IGNORECASE
)


@checks("trust-host-keys", "AWS::EC2::LaunchTemplate", "AWS::SSM::Document")
def host_keys_are_checked(properties: Properties) -> Iterator[str]:
    """Check user data and documents: without known keys, ssh believes whoever answers first."""
    found = _UNCHECKED.search(json.dumps(properties))
    if found:
        yield f"says {found[0]!r}; ssh must check host keys"


@rule("trust-secrets-closed")
def secrets_are_closed(template: Template) -> Iterator[Finding]:
    """Require our key, a text made by AWS, and denial to everybody who is not named."""
    closed = {
        logical_id(policy.get("SecretId"))
        for _, policy in resources(template, "AWS::SecretsManager::ResourcePolicy")
        if policy.get("BlockPublicPolicy") is True
        and any(each["Effect"] == "Deny" for each in as_list(policy["ResourcePolicy"]["Statement"]))
    }
    for name, properties in resources(template, "AWS::SecretsManager::Secret"):
        if "KmsKeyId" not in properties:
            yield Finding(name, "has no KmsKeyId; secrets are encrypted with our key")
        if "SecretString" in properties or "GenerateSecretString" not in properties:
            yield Finding(name, "has its text in the template; use GenerateSecretString")
        if name not in closed:
            yield Finding(name, "has no resource policy that denies it to all but its readers")
