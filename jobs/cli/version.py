"""The output of `slipway --version`: the version, with its commit if it is no release, and the extras."""

from __future__ import annotations

from importlib import metadata

from slipway.jobs.words.installation import NAME, PACKAGE, installed_extras


def describe() -> str:
    return f"{installed_version()} (extras: {', '.join(installed_extras()) or 'none'})"


def installed_version() -> str:
    """Return the version: the package's as it was installed, or a checkout's as it is now."""
    checkout = PACKAGE.resolve().parent
    if (checkout / ".git").exists():
        # Imported here, because nodes have no checkout and no such file.
        from slipway._version import version_of_source

        return version_of_source(checkout)
    try:
        return metadata.version(NAME)
    except metadata.PackageNotFoundError:
        return "not installed, but on the path"
