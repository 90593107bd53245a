"""Nodes trust each other by a secret of their own that only they read, and by known host keys."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from slipway.infra.verify.rules.template import Finding, Template, as_list, logical_id, resources

# ssh_config(5) calls these, or asks for the same by a file of known hosts that forgets.
_UNCHECKED = re.compile(
    r"StrictHostKeyChecking[\s=\"']*(no|off|accept-new)\b|UserKnownHostsFile[\s=\"']*/dev/null", re.IGNORECASE
)


def host_keys_are_checked(template: Template) -> Iterator[Finding]:
    """Check user data and documents: without known keys, ssh believes whoever answers first."""
    for name, properties in resources(template, "AWS::EC2::LaunchTemplate", "AWS::SSM::Document"):
        found = _UNCHECKED.search(json.dumps(properties))
        if found:
            yield Finding(where=name, message=f"says {found[0]!r}; ssh must check host keys")


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
            yield Finding(where=name, message="has no KmsKeyId; secrets are encrypted with our key")
        if "SecretString" in properties or "GenerateSecretString" not in properties:
            yield Finding(where=name, message="has its text in the template; use GenerateSecretString")
        if name not in closed:
            yield Finding(where=name, message="has no resource policy that denies it to all but its readers")
