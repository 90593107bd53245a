"""Finds out which machine this is, from the instance metadata service (IMDSv2: EC2 user guide)."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache
from http.client import HTTPException

from slipway.containers.runtime.contract.settings import METADATA, METADATA_VARIABLE
from slipway.containers.runtime.launch.supervise import Metadata
from slipway.jobs.words.errors import SlipwayError

_SECONDS = 5.0


class NoMetadata(SlipwayError):
    """The machine cannot find out which node it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    id: str
    address: str


def metadata() -> Metadata:
    """Return the metadata service, at the SDKs' variable, so that they and we ask the same one."""
    return Metadata(os.environ.get(METADATA_VARIABLE) or METADATA, _SECONDS)


@cache
def read_instance() -> Instance:
    """Return which machine this is. Ask once, as only root may ask, and attempts run as another user."""
    asked = metadata()
    try:
        own, address = (asked.get(f"/latest/meta-data/{name}") for name in ("instance-id", "local-ipv4"))
        why = "it does not tell the instance"
    except (OSError, HTTPException) as error:
        own, address, why = None, None, str(error)
    if own is None or address is None:
        raise NoMetadata(
            f"the instance metadata service did not answer: {why}",
            hint="is this an EC2 instance with IMDSv2 enabled?",
        )
    return Instance(id=own, address=address)
