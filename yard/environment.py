"""The variables that point AWS tools at the yard. To add a shell: a line of SHELLS."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from shlex import quote

from slipway.yard.endpoint import ACCESS_KEY_ID, HOST, Yard

DEFAULT_REGION = "us-east-1"
# Each of these would send a tool elsewhere: to a profile's account, or to another endpoint.
UNSET = (
    "AWS_PROFILE",
    "AWS_DEFAULT_PROFILE",
    "AWS_SESSION_TOKEN",
    "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS",
)
SERVICE_ENDPOINTS = "AWS_ENDPOINT_URL_"  # such as AWS_ENDPOINT_URL_S3, which overrides AWS_ENDPOINT_URL
PROXIES = ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy")


@dataclass(frozen=True, slots=True, kw_only=True)
class Shell:
    export: Callable[[str, str], str]
    unset: Callable[[str], str]


SHELLS: Mapping[str, Shell] = {
    "sh": Shell(
        export=lambda name, value: f"export {name}={quote(value)}",
        unset=lambda name: f"unset {name}",
    ),
    "fish": Shell(
        export=lambda name, value: f"set -gx {name} '{_fish_escaped(value)}'",
        unset=lambda name: f"set -e {name}",
    ),
}


def exported(yard: Yard, present: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that a tool needs to reach the yard, given those of the shell."""
    region = present.get("AWS_REGION") or present.get("AWS_DEFAULT_REGION") or DEFAULT_REGION
    variables = {
        "AWS_ENDPOINT_URL": yard.endpoint,
        "AWS_ACCESS_KEY_ID": ACCESS_KEY_ID,
        "AWS_SECRET_ACCESS_KEY": yard.secret,
        "AWS_REGION": region,
        "AWS_DEFAULT_REGION": region,
        "AWS_EC2_METADATA_DISABLED": "true",
        "CDK_DISABLE_VERSION_CHECK": "true",
    }
    if any(present.get(name) for name in PROXIES):
        # Exempt the yard from proxies: for one on another machine, the loopback address is its own.
        without = present.get("no_proxy") or present.get("NO_PROXY") or ""
        listed = [name for name in without.split(",") if name]
        variables["NO_PROXY"] = ",".join(dict.fromkeys([*listed, HOST, "localhost"]))
        variables["no_proxy"] = variables["NO_PROXY"]
    return variables


def unset(present: Mapping[str, str]) -> tuple[str, ...]:
    return (*UNSET, *sorted(name for name in present if name.startswith(SERVICE_ENDPOINTS)))


def script(shell: str, yard: Yard, present: Mapping[str, str]) -> str:
    """Return the lines that `eval "$(slipway yard env)"` runs."""
    words = SHELLS[shell]
    lines = [words.unset(name) for name in unset(present)]
    lines += [words.export(name, value) for name, value in exported(yard, present).items()]
    return "\n".join(lines) + "\n"


def _fish_escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("'", "\\'")
