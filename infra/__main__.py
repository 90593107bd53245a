"""`python -m slipway.infra`: runs the CDK app of a project; names a missing extra in one line."""

from __future__ import annotations

import gc
import os
import sys
from contextlib import suppress
from pathlib import Path

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
    from slipway.infra.trusted_types import trust_types

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


if __name__ == "__main__":
    sys.exit(main())
