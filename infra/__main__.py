"""`python -m slipway.infra`: the CDK app of a project; it names a missing extra in one line."""

from __future__ import annotations

import gc
import sys

from slipway.jobs.words.errors import SlipwayError, in_lines
from slipway.jobs.words.installation import refuse_incomplete, refuse_without


def main() -> int:
    try:
        refuse_incomplete()
        refuse_without("infra", "the CDK app of Slipway")
    except SlipwayError as error:
        print(in_lines(error), file=sys.stderr)
        return error.exit_code
    gc.disable()  # nothing of the CDK's is ever garbage, and looking for it is a twelfth of the synthesis
    from slipway.infra.trusted_types import trust_types

    trust_types()
    from slipway.infra import app

    return app.main()


if __name__ == "__main__":
    sys.exit(main())
