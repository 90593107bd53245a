"""Kinds of settings that hold the place of text, data or a model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from slipway.containers.data.errors import DataError
from slipway.containers.data.sources.locations import check_address, has_secrets, is_remote, public
from slipway.containers.runtime.values import shown
from slipway.containers.training.settings import RelativePath


@dataclass(frozen=True, slots=True)
class TextLocation:
    """Read the place of a text or vocabulary. Refuse secrets: whoever can see the job sees its settings."""

    wanted: str = (
        "a path below the data folder, s3://bucket/prefix, or https://host/file of a public host; user, "
        "password and ?… in it would be seen by all who may see the job"
    )

    def read(self, text: str) -> str | None:
        return _read(text, lambda address: not has_secrets(address))


@dataclass(frozen=True, slots=True)
class S3OrFolder:
    """Read a path below the data folder, or an S3 address."""

    wanted: str = "a path below the data folder, or s3://bucket/prefix"

    def read(self, text: str) -> str | None:
        return _read(text, lambda address: address.startswith("s3://"))


def _read(text: str, is_allowed: Callable[[str], bool]) -> str | None:
    """Read a relative path, or an address that is right and allowed."""
    if not is_remote(text):
        return RelativePath().read(text)
    try:
        check_address(text)
    except DataError:
        return None
    return text if is_allowed(text) else None


def shown_without_secrets(text: str) -> str:
    return shown(public(text))
