"""What is installed of Slipway: the folder of its package, and which extras came with it."""

from __future__ import annotations

import re
from pathlib import Path

from slipway.jobs.words.errors import SlipwayError

NAME = "slipway"
# In a checkout its rooms are links, and templates are made from the files themselves.
PACKAGE = Path(__file__).parents[2]
INSTALL_AGAIN = "install it again: pip install --force-reinstall --no-deps slipway"
# Requires-Dist of an extra: moto[all,server]==5.2.5; extra == "yard"
_REQUIREMENT = re.compile(r"""([A-Za-z0-9._-]+).*;.*\bextra *== *["']([^"']+)["']""")
# One file of each room and kind: without them the package was built or unpacked by halves.
_DATA = (
    "containers/images/cpu/Dockerfile",
    "containers/images/cpu-mpi/lock.toml",
    "infra/boot/units/slipway-boot.service",
    "infra/components/base-apt.yaml",
    "infra/components/uv.txt",
    "jobs/words/catalogue/instances.csv",
)


def containers_folder() -> Path:
    return (PACKAGE / "containers").resolve()


def is_own_file(path: str) -> bool:
    return Path(path).is_relative_to(PACKAGE)


def refuse_incomplete(package: Path | None = None) -> None:
    """Refuse a package that lost its data files, before something asks for one of them."""
    package = package or PACKAGE
    for name in _DATA:
        if not (package / name).is_file():
            raise SlipwayError(
                f"slipway in {package} is installed without its data files: {name} is missing",
                hint=INSTALL_AGAIN,
            )


def installed_extras() -> tuple[str, ...]:
    """Name the extras of which every package is installed, whoever installed it."""
    extras = _requirements()
    return tuple(sorted(name for name in extras if not _missing(extras[name])))


def refuse_without(extra: str, what: str) -> None:
    """Refuse to go on where a package of the extra is missing; `what` is what needs it."""
    missing = _missing(_requirements().get(extra, ()))
    if missing:
        raise SlipwayError(
            f"{what} needs {', '.join(missing)}, which {'is' if len(missing) == 1 else 'are'} not installed",
            hint=f"pip install '{NAME}[{extra}]', or in a checkout: python3 scripts/set_up.py",
        )


def _requirements() -> dict[str, tuple[str, ...]]:
    """Return the packages of each extra; none where the package stands on the path and was not installed."""
    from importlib import metadata  # every command pays for what is imported above

    try:
        lines = metadata.requires(NAME) or ()
    except metadata.PackageNotFoundError:
        return {}
    found: dict[str, tuple[str, ...]] = {}
    for line in lines:
        if parts := _REQUIREMENT.match(line):
            found[parts[2]] = (*found.get(parts[2], ()), parts[1])
    return found


def _missing(packages: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(package for package in packages if not _is_installed(package))


def _is_installed(package: str) -> bool:
    from importlib import metadata

    try:
        metadata.distribution(package)
    except metadata.PackageNotFoundError:
        return False
    return True
