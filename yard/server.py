"""The yard's server process: it receives every AWS request, on the loopback address only.

Either a scripted fault, one of the yard's own services, or moto answers (gateway/pipeline.py).
"""

from __future__ import annotations

import argparse
import errno
import gc
import logging
import os
import signal
import socket
import sys
import warnings
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path
from typing import Any

from slipway.yard.chaos import conditions
from slipway.yard.chaos.switches import decode
from slipway.yard.endpoint import ACCESS_KEY_ID, CONTROL_PATH, HOST, SECRET_VARIABLE
from slipway.yard.errors import ApiError
from slipway.yard.gateway import reach
from slipway.yard.machines.isolation.tiers import NoTier, best_tier
from slipway.yard.permissions.keys import new_secret
from slipway.yard.state import YardState, end_with_owner, process_identity, write_state

log = logging.getLogger("yard")

PORTS_TO_TRY = 100
BACKLOG = 128

StartResponse = Callable[[str, list[tuple[str, str]]], object]


def application(environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
    """Answer one request: the WSGI application."""
    from slipway.yard.controls import control
    from slipway.yard.gateway.pipeline import answer
    from slipway.yard.gateway.protocols import respond_unparsed
    from slipway.yard.services.for_gateway import SERVICES

    try:
        reach.check(environ)
        is_control = environ.get("PATH_INFO", "").startswith(CONTROL_PATH + "/")
        reply = control(environ) if is_control else answer(environ, SERVICES)
    except ApiError as error:
        reply = respond_unparsed(error)
    headers = [(name, value) for name, value in reply.headers if name.lower() != "content-length"]
    length = dict(reply.headers).get("Content-Length") if environ["REQUEST_METHOD"] == "HEAD" else None
    headers.append(("Content-Length", length or str(len(reply.body))))
    start_response(f"{reply.status} {_reason(reply.status)}", headers)
    return [reply.body]


def _reason(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Unknown"


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="slipway.yard.server", description=__doc__)
    parser.add_argument("--home", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--only-that-port", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--fault", action="append", default=[])
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    warnings.simplefilter("ignore")  # moto warns of every error code that is not in a model
    signal.signal(signal.SIGTERM, _end)
    end_with_owner(Path(options.home))
    listener = _listen(options.port, 1 if options.only_that_port else PORTS_TO_TRY)
    port = listener.getsockname()[1]
    # Refuse a bad isolation tier before anything can run without isolation.
    try:
        log.info("isolation: %s", best_tier().words)
    except NoTier as error:
        sys.exit(f"{error.message}; {error.hint}")
    conditions.switch(decode(options.fault), seed=options.seed)
    secret = new_secret()
    _set_environment(port, options.home, secret)
    serve(listener, lambda: _announce(Path(options.home), port, secret))


def _end(*_: object) -> None:
    """Exit without Python's final garbage collection of moto's objects, which takes seconds."""
    gc.freeze()
    sys.exit(0)


def serve(listener: socket.socket, announce: Callable[[], None]) -> None:
    from moto.moto_server.werkzeug_app import MotoRequestHandler
    from werkzeug.serving import make_server

    from slipway.yard.gateway import moto_adapter

    moto_adapter.configure()
    server = make_server(
        HOST,
        listener.getsockname()[1],
        application,
        threaded=True,
        request_handler=MotoRequestHandler,
        fd=listener.fileno(),
    )
    announce()
    server.serve_forever()


def _listen(first_port: int, ports_to_try: int) -> socket.socket:
    """Listen on the first free port from this one on."""
    for port in range(first_port, first_port + ports_to_try):
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((HOST, port))
            listener.listen(BACKLOG)
        except OSError as error:
            listener.close()
            if error.errno != errno.EADDRINUSE:
                raise
        else:
            return listener
    last = first_port + ports_to_try - 1
    sys.exit(
        f"port {last} is taken" if last == first_port else f"no port from {first_port} to {last} is free"
    )


def _set_environment(port: int, home: str, secret: str) -> None:
    """Set the variables through which our clients and moto's reach this server."""
    os.environ.update(
        SLIPWAY_YARD_ENDPOINT=f"http://{HOST}:{port}",
        **{SECRET_VARIABLE: secret},
        SLIPWAY_YARD_HOME=home,  # read by slipway.yard.state.home()
        MOTO_PORT=str(port),
        AWS_ACCESS_KEY_ID=ACCESS_KEY_ID,
        AWS_SECRET_ACCESS_KEY=secret,
    )


def _announce(folder: Path, port: int, secret: str) -> None:
    identity = process_identity(os.getpid())
    assert identity, "a process that runs has an identity"
    state = YardState(
        pid=os.getpid(),
        identity=identity,
        endpoint=f"http://{HOST}:{port}",
        started_at=datetime.now(UTC).isoformat(timespec="seconds"),
        secret=secret,
    )
    write_state(folder, state)
    log.info("listening at %s", state.endpoint)


if __name__ == "__main__":
    main(sys.argv[1:])
