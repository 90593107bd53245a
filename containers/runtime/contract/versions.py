"""A digest of everything that must be the same on all nodes, or ranks would train two models as one."""

from __future__ import annotations

import hashlib
import importlib.util
import json
from pathlib import Path

import slipway.containers as containers
from slipway.containers.runtime.contract.settings import Settings
from slipway.containers.runtime.errors import Refusal

_MOST_FILES = 2000


def digest(settings: Settings) -> str:
    """Return a digest of the code, the arguments and what the backend adds, without the machine's own
    paths."""
    running = hashlib.sha256()
    shape = [settings.module, settings.arguments, settings.processes, settings.config_digest]
    running.update(json.dumps(shape).encode())
    for name, path in sorted(_sources(settings.module).items()):
        running.update(f"\0{name}\0".encode() + path.read_bytes())
    return running.hexdigest()


def _sources(module: str) -> dict[str, Path]:
    """List our whole package, and the file of a module that is not in it."""
    found: dict[str, Path] = {}
    for root in map(Path, containers.__path__):
        files = sorted(root.rglob("*.py"))[:_MOST_FILES]
        found |= {str(path.relative_to(root)): path for path in files}
    own = _file_of(module)
    return found | ({f"module {module}": own} if own else {})


def _file_of(module: str) -> Path | None:
    try:
        spec = importlib.util.find_spec(module)
    except ModuleNotFoundError:
        spec = None
    except ImportError as error:
        raise Refusal(f"--module {module} cannot be imported: {error}") from None
    if spec is None:
        raise Refusal(
            f"--module {module} is not installed here", hint="check its name, and that the image holds it"
        )
    return Path(spec.origin) if spec.origin and spec.has_location else None
