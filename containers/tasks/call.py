"""Run one rank of a user's function: python -m slipway.containers.tasks.call MODULE:NAME s3://…/DIGEST.safetensors

It runs in the user's folder, which `slipway.run` sent, and writes the result of the function to the bucket
that holds its arguments.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path

from slipway.containers.data.sources.locations import bucket_and_key, open_source
from slipway.containers.data.sources.sources import read_whole
from slipway.containers.runtime.contract.contract import LaunchContract
from slipway.containers.runtime.contract.launchers import read_contract
from slipway.containers.runtime.errors import Refusal
from slipway.containers.tasks.values import SUFFIX, decode_value, encode_value, result_key

MODULE = "slipway.containers.tasks.call"
_RANK = "slipway.containers.runtime.launch.rank"
_GUARD = '`if __name__ == "__main__":`'
_MAY_WRITE = "allow s3:PutObject there to the job's role"


class CannotCall(Refusal):
    """The function or its arguments are not what was sent."""


def call_words(function: str, arguments: str) -> tuple[str, ...]:
    """Return the command that runs a rank through launch.rank, which also shuts it down."""
    return ("python", "-m", _RANK, MODULE, function, arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog=f"python -m {MODULE}", description=__doc__)
    parser.add_argument("function", metavar="MODULE:NAME")
    parser.add_argument("arguments", metavar="URL")
    options = parser.parse_args(arguments)
    sys.path.insert(0, str(Path.cwd()))
    try:
        contract = read_contract(os.environ)
        positional, named = read_arguments(options.arguments, contract.account)
        function = find_function(options.function)
        returned = function(*positional, **named)
        content = encode_value(returned, f"what {options.function} returned")
        _write_result(content, options.arguments, contract)
    except Refusal as refusal:
        return _fail(str(refusal), refusal.exit_code)
    except Exception as error:  # noqa: BLE001 - the user's code may raise anything
        traceback.print_exc()
        return _fail(f"{type(error).__name__}: {error}", 1)
    return 0


def read_arguments(url: str, account: str | None) -> tuple[list[object], dict[str, object]]:
    """Return the positional and named arguments; refuse content that the digest in the URL does not match."""
    source = open_source(url, bucket_owner=account)
    (file,) = source.files
    content = read_whole(source, file.name)
    if sha256(content).hexdigest() != url.rpartition("/")[2].removesuffix(SUFFIX):
        raise CannotCall(
            f"{url} does not match the digest in its name", hint="call the function again, with again=True"
        )
    match decode_value(content, url):
        case [list(positional), dict(named)]:
            return positional, named
    raise CannotCall(f"{url} holds no arguments", hint="call the function again, with again=True")


def find_function(named: str) -> Callable[..., object]:
    """Import MODULE and return its NAME, which may have dots."""
    module, _, name = named.partition(":")
    try:
        found: object = importlib.import_module(module)
    except ImportError as error:
        if error.name is None or error.name.partition(".")[0] != "slipway":
            raise
        raise CannotCall(
            f"{module} imports {error.name}, and nodes have only slipway.containers",
            hint=f"import it, and call slipway.run, below {_GUARD}",
        ) from None
    for part in name.split("."):
        if not hasattr(found, part):
            raise CannotCall(f"{module} has no {name}", hint="is it defined where the module is imported?")
        found = getattr(found, part)
    assert callable(found), "slipway.run sends functions"
    return found


def _write_result(content: bytes, url: str, contract: LaunchContract) -> None:
    import obstore
    from obstore.exceptions import BaseError

    from slipway.containers.data.sources.source_s3 import Bucket, endpoint_of, explained, store

    bucket, _ = bucket_and_key(url)
    key = result_key(contract.job, contract.rank)
    try:
        obstore.put(store(Bucket(bucket, endpoint_of(os.environ), None)), key, content)
    except (BaseError, OSError) as error:
        raise explained(error, f"s3://{bucket}/{key}", _MAY_WRITE) from None


def _fail(line: str, code: int) -> int:
    print(f"error: {line}", file=sys.stderr, flush=True)
    return code


if __name__ == "__main__":
    sys.exit(main())
