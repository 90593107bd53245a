"""Write a release's SBOM (CycloneDX), its provenance (SLSA), and its checksums."""

from __future__ import annotations

import json
import os
import platform
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import NAMESPACE_URL, uuid5

from scripts.releasing.artifacts import Source

if TYPE_CHECKING:
    from cyclonedx.model.bom import Bom
    from cyclonedx.model.component import Component

# The locks of `pip install slipway` and of its extras; the tools that make a release are in none.
CORE = "submit"
EXTRAS = ("deepspeed", "develop", "sagemaker", "sft", "toolkit", "training")
_BUILDS = "setuptools"  # in the core's lock for checkouts; a wheel does not need it
_OURS = ("compare", "dev")  # extras for work on Slipway
_LOCKED = re.compile(r"^(?P<name>[\w.-]+)==(?P<version>[^\s;\\]+)", re.MULTILINE)
_EXACT = re.compile(r"(?P<name>[\w.-]+)(?:\[[\w,]+\])?==(?P<version>[^\s;,]+)")
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")
_NAME = re.compile(r"[\w.-]+")
BUILD_TYPE = "urn:slipway:scripts-release:1"


def bill_of_materials(source: Source, version: str, wheel: Path) -> str:
    """Return the SBOM as CycloneDX JSON, checked against its schema."""
    from cyclonedx.output.json import JsonV1Dot6
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    text = JsonV1Dot6(_bom(source, version, wheel)).output_as_string(indent=2)
    wrong = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
    assert wrong is None, f"not CycloneDX 1.6: {wrong}"
    return f"{text}\n"


def provenance(source: Source, version: str, artifacts: Iterable[Path]) -> str:
    """Return an in-toto statement with SLSA's predicate; it is not signed."""
    # The URL of the forge's run, or a name for a person's machine.
    names = ("GITHUB_SERVER_URL", "GITHUB_REPOSITORY", "GITHUB_RUN_ID")
    server, repository, number = (os.environ.get(name) for name in names)
    run = f"{server}/{repository}/actions/runs/{number}" if server else "urn:slipway:a-person-s-machine"
    statement = {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": path.name, "digest": {"sha256": _digest(path)}} for path in artifacts],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": BUILD_TYPE,
                "externalParameters": {"version": version, "commit": source.commit},
                "internalParameters": {
                    "SOURCE_DATE_EPOCH": source.epoch,
                    "python": platform.python_version(),
                },
                "resolvedDependencies": [
                    {"uri": f"git+commit:{source.commit}", "digest": {"gitCommit": source.commit}},
                    {"uri": f"pkg:pypi/setuptools@{metadata.version('setuptools')}"},
                ],
            },
            "runDetails": {"builder": {"id": run}},
        },
    }
    return json.dumps(statement, indent=2) + "\n"


def checksums(artifacts: Iterable[Path]) -> str:
    """Return the checksums in the format of `sha256sum --check`."""
    return "".join(f"{_digest(path)}  {path.name}\n" for path in artifacts)


def _digest(path: Path) -> str:
    return sha256(path.read_bytes()).hexdigest()


def _bom(source: Source, version: str, wheel: Path) -> Bom:
    from cyclonedx.model import HashAlgorithm, HashType
    from cyclonedx.model.bom import Bom, BomMetaData
    from cyclonedx.model.component import Component, ComponentType
    from cyclonedx.model.license import DisjunctiveLicense
    from packageurl import PackageURL

    project = tomllib.loads((source.folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    own = Component(
        name=project["name"],
        version=version,
        description=project["description"],
        type=ComponentType.APPLICATION,
        bom_ref="slipway",
        purl=PackageURL("pypi", None, project["name"], version),
        licenses=[DisjunctiveLicense(id=project["license"])],
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=_digest(wheel))],
    )
    made = BomMetaData(component=own, timestamp=datetime.fromtimestamp(source.epoch, tz=UTC))
    number = uuid5(NAMESPACE_URL, f"slipway {version} {source.commit}")
    components = list(_components(source.folder, project))
    bom = Bom(serial_number=number, metadata=made, components=components)
    asked = set()
    for line in _requirements(project):
        direct = _NAME.match(line)
        assert direct, line
        asked.add(_canonical(direct[0]))
    bom.register_dependency(own, [each for each in components if each.name in asked])
    return bom


def _requirements(project: Mapping[str, object]) -> list[str]:
    """Return the requirements of the project and its extras, as in pyproject.toml."""
    own, extras = project["dependencies"], project["optional-dependencies"]
    assert isinstance(own, list)
    assert isinstance(extras, dict)
    return [*own, *(line for name, lines in extras.items() if name not in _OURS for line in lines)]


def _components(folder: Path, project: Mapping[str, object]) -> Iterator[Component]:
    """Yield each locked package once, with its locks, and those pinned outside locks, such as torch."""
    found: dict[tuple[str, str], tuple[list[str], set[str]]] = {}
    for lock in (CORE, *EXTRAS):
        text = (folder / "scripts" / "locks" / f"{lock}.txt").read_text(encoding="utf-8")
        for package in re.split(r"\n(?=\w)", text):
            if locked := _LOCKED.match(package):
                locks, hashes = found.setdefault((_canonical(locked["name"]), locked["version"]), ([], set()))
                locks.append(lock)
                hashes.update(_HASH.findall(package))
    names = {name for name, _ in found}
    for line in _requirements(project):
        pin = _EXACT.match(line)
        if pin and _canonical(pin["name"]) not in names:
            found[_canonical(pin["name"]), pin["version"]] = (["pyproject.toml"], set())
    for (name, version), (locks, hashes) in sorted(found.items()):
        yield _component(name, version, locks, sorted(hashes))


def _component(name: str, version: str, locks: Sequence[str], hashes: Sequence[str]) -> Component:
    from cyclonedx.model import (
        ExternalReference,
        ExternalReferenceType,
        HashAlgorithm,
        HashType,
        Property,
        XsUri,
    )
    from cyclonedx.model.component import Component, ComponentScope
    from packageurl import PackageURL

    purl = PackageURL("pypi", None, name, version)
    files = ExternalReference(
        type=ExternalReferenceType.DISTRIBUTION,
        url=XsUri(str(purl)),
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=digest) for digest in hashes],
    )
    return Component(
        name=name,
        version=version,
        bom_ref=str(purl),
        purl=purl,
        scope=ComponentScope.REQUIRED if CORE in locks and name != _BUILDS else ComponentScope.OPTIONAL,
        external_references=[files],
        properties=[Property(name="slipway:lock", value=lock) for lock in locks],
    )


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
