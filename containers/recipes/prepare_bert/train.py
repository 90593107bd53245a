"""One rank of the preparation: python -m slipway.containers.recipes.prepare_bert.train --set input=text

Nothing is trained here: `train` is the name of every recipe's entry point.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from slipway.containers.data.errors import DataError
from slipway.containers.recipes.prepare_bert.config import decode_arguments
from slipway.containers.recipes.prepare_bert.recipe import MODULE
from slipway.containers.recipes.prepare_bert.session import prepare_share
from slipway.containers.runtime.contract.launchers import read_contract
from slipway.containers.runtime.errors import MISTAKE_EXIT_CODE, Refusal


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog=f"python -m {MODULE}", description=__doc__)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", dest="settings")
    options = parser.parse_args(arguments)
    try:
        prepare_share(decode_arguments(options.settings), read_contract(os.environ))
    except (Refusal, DataError) as error:
        print(f"error: {error}", file=sys.stderr)
        return getattr(error, "exit_code", MISTAKE_EXIT_CODE)
    return 0


if __name__ == "__main__":
    sys.exit(main())
