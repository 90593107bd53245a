"""`python -m slipway.infra`: runs the CDK app of a project; names a missing extra in one line."""

from __future__ import annotations

import gc
import os
import sys
from collections import defaultdict
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from slipway.jobs.words.errors import SlipwayError, in_lines
from slipway.jobs.words.installation import refuse_incomplete, refuse_without


def main() -> int:
    try:
        refuse_incomplete()
        refuse_without("infra", "the CDK app of Slipway")
    except SlipwayError as error:
        print(in_lines(error), file=sys.stderr)
        return error.exit_code
    unpack_anywhere()
    gc.disable()  # nothing of the CDK's is ever garbage, and looking for it takes a twelfth of the synthesis
    trust_types()
    from slipway.infra import app

    return app.main()


def unpack_anywhere() -> None:
    """Let the CDK unpack itself for this run only, if its cache in the home folder cannot be written."""
    cache = Path.home() / ".cache" / "aws" / "jsii"
    with suppress(OSError):
        cache.mkdir(parents=True, exist_ok=True)
    if not os.access(cache, os.W_OK):
        os.environ.setdefault("JSII_RUNTIME_PACKAGE_CACHE", "disabled")


class _NoHints(dict[Any, Any]):
    """Tells jsii for every function that its arguments may be anything, without reading its annotations."""

    def get(self, key: Any, default: Any = None) -> Any:
        return _ANYTHING


_ANYTHING: defaultdict[str, Any] = defaultdict(lambda: Any)


def trust_types() -> None:
    """Stop the CDK from checking the type of every argument at run time: mypy has checked our calls.

    It lasts for the rest of this process, if this release of jsii has the two hooks for it. An app of the
    user's own keeps these checks, for its own calls.
    """
    checks = import_module("jsii._type_checking")
    instead = {"_resolved_check": lambda **_: None, "_type_hints_cache": _NoHints()}
    if all(hasattr(checks, name) for name in instead):
        for name, value in instead.items():
            setattr(checks, name, value)


if __name__ == "__main__":
    sys.exit(main())
