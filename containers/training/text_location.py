"""Kinds of settings that hold the place of text, data or a model."""

from __future__ import annotations

from collections.abc import Callable

from slipway.containers.data.errors import DataError
from slipway.containers.data.sources.locations import check_address, has_secrets, is_remote, public
from slipway.containers.runtime.values import shown
from slipway.containers.training.settings import RELATIVE_PATH, ValueKind


def _reader(is_allowed: Callable[[str], bool]) -> Callable[[str], object | None]:
    """Return a function that reads a relative path, or an address that is right and allowed."""

    def read(text: str) -> object | None:
        if not is_remote(text):
            return RELATIVE_PATH.read(text)
        try:
            check_address(text)
        except DataError:
            return None
        return text if is_allowed(text) else None

    return read


# The place of a text or vocabulary. Secrets are refused: whoever can see the job sees its settings.
TEXT_LOCATION = ValueKind(
    "a path below the data folder, s3://bucket/prefix, or https://host/file of a public host; user, "
    "password and ?… in it would be seen by all who may see the job",
    _reader(lambda address: not has_secrets(address)),
)
S3_OR_FOLDER = ValueKind(
    "a path below the data folder, or s3://bucket/prefix",
    _reader(lambda address: address.startswith("s3://")),
)


def shown_without_secrets(text: str) -> str:
    return shown(public(text))
