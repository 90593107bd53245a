"""Opens what --input names. Another kind of place is a row of OPENERS and a module with an open_source."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path

from slipway.containers.data.errors import DataError
from slipway.containers.data.sources.locations import check_address, is_remote, public
from slipway.containers.data.sources.sources import Source, local_source

# Imported on use: local text needs neither of the libraries.
OPENERS: Mapping[str, str] = {
    "s3": "slipway.containers.data.sources.source_s3",
    "https": "slipway.containers.data.sources.source_url",
    "http": "slipway.containers.data.sources.source_url",
}


def open_source(text: str, names: tuple[str, ...] = (), bucket_owner: str | None = None) -> Source:
    """Open text wherever it lies.

    `names` limits it to these files below the place. `bucket_owner` is the account that a bucket must belong
    to.
    """
    if not is_remote(text):
        return local_source(Path(text), names)
    check_address(text)
    scheme = text.partition("://")[0]
    try:
        module = import_module(OPENERS[scheme])
    except ModuleNotFoundError as error:
        raise DataError(
            f"{public(text)[:200]} needs the Python package {error.name}",
            hint="install Slipway's extra 'training'",
        ) from None
    source: Source = module.open_source(text, names, bucket_owner)
    return source
