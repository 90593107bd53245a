"""Run one rank of a training, from its command line to its exit code, for any recipe."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import TypeVar

from slipway.containers.runtime.checkpoint.storage import Unreachable
from slipway.containers.runtime.contract.contract import LaunchContract
from slipway.containers.runtime.contract.launchers import read_contract
from slipway.containers.runtime.errors import MISTAKE_EXIT_CODE, RESUMABLE_EXIT_CODE, Refusal

Config = TypeVar("Config")


def run_rank(
    module: str,
    decode: Callable[[Sequence[str]], Config],
    train: Callable[[Config, LaunchContract, ExitStack], None],
    arguments: Sequence[str] | None = None,
    description: str | None = None,
) -> int:
    """Run one rank of a recipe and return its exit code.

    `train` imports torch itself, so that mistakes in the settings are reported at once, even without torch.
    """
    parser = argparse.ArgumentParser(prog=f"python -m {module}", description=description)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", dest="settings")
    options = parser.parse_args(arguments)
    try:
        with ExitStack() as stack:
            train(decode(options.settings), read_contract(os.environ), stack)
    except Refusal as error:
        return _fail(str(error), error.exit_code)
    except ImportError as error:
        if error.name != "torch":
            raise
        return _fail(f"{error}; install the extra 'training'", MISTAKE_EXIT_CODE)
    except Unreachable as error:
        return _fail(str(error), MISTAKE_EXIT_CODE if error.lasts else RESUMABLE_EXIT_CODE)
    except RuntimeError as error:
        return _end(error)
    return 0


def _end(error: RuntimeError) -> int:
    """Return the exit code if memory ran out or a peer was lost; raise any other error."""
    from slipway.containers.training.devices import is_lost_peer, is_out_of_memory

    cause: BaseException | None = error
    while cause is not None:
        what = str(cause).splitlines()[0] if str(cause) else type(cause).__name__
        if is_out_of_memory(cause):
            return _fail(
                f"{what}; set a smaller micro_batch: another attempt would fail alike", MISTAKE_EXIT_CODE
            )
        if is_lost_peer(cause):
            return _fail(f"lost another rank: {what}", RESUMABLE_EXIT_CODE)
        cause = cause.__cause__  # a pipeline wraps the error of a stage in another one
    raise error


def _fail(line: str, code: int) -> int:
    print(f"error: {line}", file=sys.stderr, flush=True)
    return code
