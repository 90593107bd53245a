"""Run one rank of a user's own command: python -m slipway.containers.recipes.command.train --set source=…

The process becomes the command (exec), so the command gets its signals, and its exit code is the rank's.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from hashlib import sha256
from pathlib import Path
from typing import NoReturn

from slipway.containers.recipes.command.config import MODULE, CommandConfig, decode_arguments
from slipway.containers.recipes.command.packages import (
    ensure_packages,
    unpack_source,
    with_packages,
)
from slipway.containers.recipes.command.secrets import read_secrets
from slipway.containers.runtime.contract import variables
from slipway.containers.runtime.contract.contract import LaunchContract
from slipway.containers.runtime.errors import Refusal
from slipway.containers.training.node_folders import folder_root, hold, sweep
from slipway.containers.training.rank import run_rank

# The command runs in the user's folder, with torchrun's variables, and no process of ours in between.
# The launcher has set the variables of torch.distributed (containers/runtime/contract). To set variables of
# other starters, add a row to _told_to_all, or to _told_to_starters for one that starts a node's processes.
PREFIX = "attempt-"
_NAME_LENGTH = 16
_PYTHON = "python"
# Python ignores these signals from its start, and a program that it becomes would ignore them, too.
_IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)


class NoProgram(Refusal):
    """There is no such program; the exit code is that of a shell."""

    exit_code = 127


class NotExecutable(Refusal):
    """The program exists, but cannot be run; the exit code is that of a shell."""

    exit_code = 126


def start(config: CommandConfig, contract: LaunchContract, _stack: ExitStack) -> NoReturn:
    """Unpack the folder and install its requirements, once per node, and become the command."""
    root = folder_root()
    folder = _own_folder(config, contract, root)
    environment = {
        **command_environment(os.environ, contract, is_per_node=config.is_per_node),
        **config.environment,
        **read_secrets(config.secrets),
    }
    if config.requirements:
        environment = with_packages(environment, ensure_packages(root, config.requirements, folder))
    _make_folders(contract)
    os.chdir(folder)
    _become(config.command, {**environment, "PWD": str(folder)})


def command_environment(
    environment: Mapping[str, str], contract: LaunchContract, *, is_per_node: bool
) -> dict[str, str]:
    """Return the rank's environment, with the variables that other starters than torch read."""
    told = {**_told_to_all(contract), **(_told_to_starters(contract, environment) if is_per_node else {})}
    own = str(Path(sys.executable).parent)  # `python` is what the image's recipes run in
    return {
        **environment,
        **told,
        "PATH": os.pathsep.join((own, environment.get("PATH", os.defpath))),
    }


def _told_to_all(contract: LaunchContract) -> dict[str, str]:
    return {"NODE_RANK": str(contract.node), "NNODES": str(contract.nodes)}


def _told_to_starters(contract: LaunchContract, environment: Mapping[str, str]) -> dict[str, str]:
    """Return torchrun's options as variables: torch.distributed.run reads PET_ and the option's name."""
    told = {
        "PET_NNODES": str(contract.nodes),
        "PET_NODE_RANK": str(contract.node),
        "PET_MASTER_ADDR": contract.main_address,
        "PET_MASTER_PORT": str(contract.main_port),
    }
    devices = environment.get(variables.ACCELERATORS)
    return {**told, **({"PET_NPROC_PER_NODE": devices} if devices else {})}


def _own_folder(config: CommandConfig, contract: LaunchContract, root: Path) -> Path:
    """Return a folder on this node for this attempt alone: a command may write to its working directory."""
    own = f"{contract.run}\0{contract.attempt}\0{contract.node}\0{config.digest}"

    def unpack(folder: Path) -> None:
        sweep(root, PREFIX)
        unpack_source(config.source, config.digest, folder, contract.account)

    return hold(root, f"{PREFIX}{sha256(own.encode()).hexdigest()[:_NAME_LENGTH]}", unpack)


def _make_folders(contract: LaunchContract) -> None:
    """Make those that are local folders; if that fails, the command itself reports it."""
    for place in (contract.checkpoints, contract.logs):
        if place and "://" not in place:
            with suppress(OSError):
                Path(place).mkdir(parents=True, exist_ok=True)


def _become(words: Sequence[str], environment: Mapping[str, str]) -> NoReturn:
    program = _program(words[0], environment["PATH"])
    sys.stdout.flush()
    sys.stderr.flush()
    for number in _IGNORED_BY_PYTHON:
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execve(program, list(words), environment)  # noqa: S606  # without a shell, on purpose
    except OSError as error:
        raise _cannot_run(words[0], error) from None


def _program(word: str, path: str) -> str:
    if os.sep in word:
        if not Path(word).exists():
            raise NoProgram(f"the command '{word}' is not in the folder", hint=_LOOK)
        if not os.access(word, os.X_OK) or Path(word).is_dir():
            raise NotExecutable(
                f"the command '{word}' is no program", hint=f"chmod +x {word}, or python {word}"
            )
        return word
    if found := shutil.which(word, path=path):
        return found
    if word == _PYTHON:  # Debian has only python3
        return sys.executable
    is_file = Path(word).is_file()
    raise NoProgram(
        f"the command '{word}' is not in this image",
        hint=f"write ./{word} or python {word}" if is_file else _LOOK,
    )


_LOOK = "correct it, bring it with --requirements, or choose an image that has it"


def _cannot_run(word: str, error: OSError) -> Refusal:
    if isinstance(error, FileNotFoundError):
        return NoProgram(f"what the first line of '{word}' names is not in this image", hint=_LOOK)
    return NotExecutable(
        f"the command '{word}' cannot be run: {error.strerror}", hint=f"python {word}, or bash"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    return run_rank(MODULE, decode_arguments, start, arguments, __doc__)


if __name__ == "__main__":
    sys.exit(main())
