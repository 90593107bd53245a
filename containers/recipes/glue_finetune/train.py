"""One rank of fine-tuning on GLUE: python -m containers.recipes.glue_finetune.train --set task=mrpc

Rank, world and places come from the launch contract; task and model lie below the data folder, or in S3.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from contextlib import ExitStack

from containers.data.errors import DataError
from containers.recipes.glue_finetune.config import GlueConfig, decode_arguments
from containers.runtime.contract import LaunchContract
from containers.runtime.errors import MISTAKE_EXIT_CODE, RESUMABLE_EXIT_CODE, Refusal
from containers.runtime.platforms import read_contract


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m containers.recipes.glue_finetune.train", description=__doc__
    )
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", dest="settings")
    options = parser.parse_args(arguments)
    try:
        return _train(decode_arguments(options.settings), read_contract(os.environ))
    except Refusal as error:
        return _fail(str(error), error.exit_code)
    except DataError as error:
        return _fail(str(error), MISTAKE_EXIT_CODE)


def _train(config: GlueConfig, contract: LaunchContract) -> int:
    """torch is imported here: a mistake in the settings is told in no time, on machines without it too."""
    try:
        import torch
    except ImportError as error:
        raise Refusal(f"{error}", hint="install the extra 'training'") from None
    from containers.recipes.bert_pretrain.devices import is_lost_peer
    from containers.recipes.glue_finetune.batches import plan_batch
    from containers.recipes.glue_finetune.session import train

    try:
        with ExitStack() as stack:
            train(config, contract, plan_batch(config, contract), stack)
    except torch.OutOfMemoryError as error:
        hint = "set a smaller micro_batch: the same again ends the same"
        raise Refusal(str(error).splitlines()[0], hint=hint) from error
    except RuntimeError as error:
        if not is_lost_peer(error):
            raise
        return _fail(f"lost another rank: {str(error).splitlines()[0]}", RESUMABLE_EXIT_CODE)
    return 0


def _fail(line: str, code: int) -> int:
    print(f"error: {line}", file=sys.stderr, flush=True)
    return code


if __name__ == "__main__":
    sys.exit(main())
