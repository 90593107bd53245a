"""What `slipway --version` says: the version, with its commit where that is no release, and the extras."""

from __future__ import annotations

from importlib import metadata

from slipway.jobs.words.installation import NAME, PACKAGE, installed_extras


def describe() -> str:
    return f"{installed_version()} (extras: {', '.join(installed_extras()) or 'none'})"


def installed_version() -> str:
    """Return what was installed; a checkout moves on after that, and is asked itself."""
    checkout = PACKAGE.resolve().parent
    if (checkout / ".git").exists():
        from slipway._version import (
            version_of_source,
        )  # nodes, which have no checkout, have no such file either

        return version_of_source(checkout)
    try:
        return metadata.version(NAME)
    except metadata.PackageNotFoundError:
        return "not installed, but on the path"
