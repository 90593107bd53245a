"""Finds what is installed of Slipway, with which extras, and which project a command works for."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from slipway.jobs.words.errors import SlipwayError
from slipway.jobs.words.text import decode_json

NAME = "slipway"
# In a checkout its rooms are links; templates are made from the real paths.
PACKAGE = Path(__file__).parents[2]
INSTALL_AGAIN = "install it again: pip install --force-reinstall --no-deps slipway"
# Requires-Dist of an extra: moto[all,server]==5.2.5; extra == "yard"
_REQUIREMENT = re.compile(r"""([A-Za-z0-9._-]+).*;.*\bextra *== *["']([^"']+)["']""")
# One file of each room and kind: without them the package was built or unpacked only in part.
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
    """Return the extras of which every package is installed, whoever installed it."""
    extras = _requirements()
    return tuple(sorted(name for name in extras if not _missing(extras[name])))


def refuse_without(extra: str, what: str) -> None:
    """Refuse if a package of the extra is missing; `what` is what needs it."""
    missing = missing_packages(extra)
    if missing:
        raise SlipwayError(
            f"{what} needs {', '.join(missing)}, which {'is' if len(missing) == 1 else 'are'} not installed",
            hint=f"{install_line(extra)}, or in a checkout: python3 scripts/set_up.py",
        )


def missing_packages(extra: str) -> tuple[str, ...]:
    """Return the packages of the extra that are not installed."""
    return _missing(_requirements().get(extra, ()))


def install_line(extra: str) -> str:
    return f"pip install '{NAME}[{extra}]'"


def _requirements() -> dict[str, tuple[str, ...]]:
    """Return the packages of each extra; none if the package is on the path without being installed."""
    from importlib import metadata  # every command pays for imports above

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


# Finds the project that a command works for: the nearest folder, upwards, that declares clusters. A project
# is a folder with a cdk.json and a clusters.py. A checkout of Slipway is one as well, with its declarations
# in infra/.
CDK_JSON = "cdk.json"
DECLARATIONS = "clusters.py"
# A key of cdk.json's context, and a tag of stacks: it tells two projects of one account apart.
PROJECT_KEY = "slipway:project"
_OF_CHECKOUT = Path("slipway", "infra", DECLARATIONS)
_NAME = re.compile(r"[a-z0-9](-?[a-z0-9])*")
_LONGEST_NAME = 64


class NoProject(SlipwayError):
    """No clusters are declared here; a laptop that only submits needs none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    folder: Path
    declarations: Path  # the file whose CLUSTERS are declared

    @property
    def is_checkout(self) -> bool:
        """Return True for Slipway's own checkout."""
        return self.declarations == self.folder / _OF_CHECKOUT

    @property
    def containers(self) -> Path:
        """Return the folder of code and images: a checkout's own, and elsewhere the installed one."""
        return self.folder / "containers" if self.is_checkout else containers_folder()

    @property
    def name(self) -> str | None:
        """Return the project's name in cdk.json; None: it has none, so its stacks are not marked as its."""
        path = self.folder / CDK_JSON
        try:
            context = decode_json(path.read_text(encoding="utf-8")).get("context", {})
            name: object = context.get(PROJECT_KEY)
        except (OSError, ValueError, AttributeError) as error:
            raise SlipwayError(
                f"{path} cannot be read: {error}", hint="mend it, or take it from git"
            ) from None
        if name is None:
            return None
        if isinstance(name, str) and len(name) <= _LONGEST_NAME and _NAME.fullmatch(name):
            return name
        raise SlipwayError(
            f"{path} names the project {name!r}; allowed are small letters, digits and single hyphens, "
            f"at most {_LONGEST_NAME} of them",
            hint=f"mend {PROJECT_KEY} in its context",
        )


def find_project(start: Path | None = None) -> Project:
    """Find the project from a folder upwards; without one, the checkout that slipway is installed from."""
    here = start or Path.cwd()
    for folder in (here, *here.parents, PACKAGE.resolve().parent):
        for declarations in (folder / DECLARATIONS, folder / _OF_CHECKOUT):
            if declarations.is_file() and (folder / CDK_JSON).is_file():
                return Project(folder=folder, declarations=declarations)
    raise NoProject(
        f"no cluster is declared: neither {here} nor a folder above it has a {CDK_JSON} and a {DECLARATIONS}",
        hint="go to your project, or begin one: slipway init FOLDER",
    )


def find_containers() -> Path:
    """Return the folder of code and images that commands build from here."""
    try:
        return find_project().containers
    except NoProject:
        return containers_folder()
