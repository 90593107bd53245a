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
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

from slipway.containers.recipes.command.config import (
    MODULE,
    SECRETS_PREFIX,
    CommandConfig,
    decode_arguments,
)
from slipway.containers.recipes.command.packages import (
    ensure_packages,
    unpack_source,
    with_packages,
)
from slipway.containers.runtime.contract import variables
from slipway.containers.runtime.contract.contract import LaunchContract
from slipway.containers.runtime.errors import Interruption, Refusal
from slipway.containers.runtime.node_folders import hold
from slipway.containers.training.rank import run_rank

# The command runs in the user's folder, with torchrun's variables, and no process of ours in between.
# The launcher has set the variables of torch.distributed (containers/runtime/contract). To set variables of
# other starters, add them to command_environment.
PREFIX = "attempt-"


class NoProgram(Refusal):
    """There is no such program; the exit code is that of a shell."""

    exit_code = 127


class NotExecutable(Refusal):
    """The program exists, but cannot be run; the exit code is that of a shell."""

    exit_code = 126


def start(config: CommandConfig, contract: LaunchContract, _stack: ExitStack) -> NoReturn:
    """Unpack the folder and install its requirements, once per node, and become the command."""
    # For this attempt alone, on this node: a command may write to its working directory.
    own = f"{contract.run}\0{contract.attempt}\0{contract.node}\0{config.digest}"
    folder = hold(
        PREFIX, own, lambda folder: unpack_source(config.source, config.digest, folder, contract.account)
    )
    environment = {
        **command_environment(os.environ, contract, is_per_node=config.is_per_node),
        **config.environment,
        **read_secrets(config.secrets),
    }
    if config.requirements:
        environment = with_packages(environment, ensure_packages(config.requirements, folder))
    # Make those that are local folders; if that fails, the command itself reports it.
    for place in (contract.checkpoints, contract.logs):
        if place and "://" not in place:
            with suppress(OSError):
                Path(place).mkdir(parents=True, exist_ok=True)
    os.chdir(folder)
    _become(config.command, {**environment, "PWD": str(folder)})


def command_environment(
    environment: Mapping[str, str], contract: LaunchContract, *, is_per_node: bool
) -> dict[str, str]:
    """Return the rank's environment, with the variables that other starters than torch read."""
    told = {"NODE_RANK": str(contract.node), "NNODES": str(contract.nodes)}
    if is_per_node:  # torch.distributed.run reads its options from PET_ and the option's name
        told |= {
            "PET_NNODES": str(contract.nodes),
            "PET_NODE_RANK": str(contract.node),
            "PET_MASTER_ADDR": contract.main_address,
            "PET_MASTER_PORT": str(contract.main_port),
        }
        if devices := environment.get(variables.ACCELERATORS):
            told["PET_NPROC_PER_NODE"] = devices
    own = str(Path(sys.executable).parent)  # `python` is what the image's recipes run in
    return {
        **environment,
        **told,
        "PATH": os.pathsep.join((own, environment.get("PATH", os.defpath))),
    }


def _become(words: Sequence[str], environment: Mapping[str, str]) -> NoReturn:
    program = _program(words[0], environment["PATH"])
    sys.stdout.flush()
    sys.stderr.flush()
    # Python ignores these from its start, and a program that it becomes would ignore them, too.
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execve(program, list(words), environment)  # noqa: S606  # without a shell, on purpose
    except FileNotFoundError:
        raise NoProgram(
            f"what the first line of '{words[0]}' names is not in this image", hint=_LOOK
        ) from None
    except OSError as error:
        raise NotExecutable(
            f"the command '{words[0]}' cannot be run: {error.strerror}", hint=f"python {words[0]}, or bash"
        ) from None


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
    if word == "python":  # Debian has only python3
        return sys.executable
    is_file = Path(word).is_file()
    raise NoProgram(
        f"the command '{word}' is not in this image",
        hint=f"write ./{word} or python {word}" if is_file else _LOOK,
    )


_LOOK = "correct it, bring it with --requirements, or choose an image that has it"


# The secrets for the environment of a command, from AWS Secrets Manager, by name.
# What passes by itself: names of botocore's exceptions, and codes of Secrets Manager (API Reference).
_PASSING = frozenset(
    {
        *("ConnectTimeoutError", "ConnectionClosedError", "EndpointConnectionError", "ReadTimeoutError"),
        *("CredentialRetrievalError", "ExpiredTokenException", "InternalServiceError", "ThrottlingException"),
    }
)


def read_secrets(names: Mapping[str, str], client: Any = None) -> dict[str, str]:
    """Return the value for each variable; `names` holds the secrets' names without SECRETS_PREFIX."""
    if not names:
        return {}
    if client is None:
        try:
            # botocore alone does not read AWS_REGION, which launchers are told.
            client = import_module("boto3").client("secretsmanager", region_name=os.environ.get("AWS_REGION"))
        except ImportError:
            raise Refusal(
                "this image has no boto3, which reads secrets", hint="name boto3 in a file for --requirements"
            ) from None
    return {variable: _read(f"{SECRETS_PREFIX}{name}", client) for variable, name in names.items()}


def _read(name: str, client: Any) -> str:
    try:
        return str(client.get_secret_value(SecretId=name)["SecretString"])
    except KeyError:
        raise Refusal(f"the secret {name} holds bytes", hint="store it with --secret-string") from None
    except Exception as error:  # noqa: BLE001 - botocore's errors have no common base that is known without it
        code = getattr(error, "response", {}).get("Error", {}).get("Code", type(error).__name__)
        if code in _PASSING:
            raise Interruption(f"the secret {name} cannot be read now: {code}") from None
        raise Refusal(
            f"the secret {name} cannot be read: {code}",
            hint=f"aws secretsmanager create-secret --name {name} --secret-string file://FILE, in the region "
            "of the cluster; and deploy a cluster again whose role is older than this prefix",
        ) from None


main = partial(run_rank, MODULE, decode_arguments, start, description=__doc__)

if __name__ == "__main__":
    sys.exit(main())
