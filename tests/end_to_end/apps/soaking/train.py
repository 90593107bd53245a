"""A training that FAULTS strike while it runs, until UNTIL seconds after its first step.

Its weights are a chain of digests, one for each step, so that its result is right or wrong to the bit. Its
ranks do each step together, and give up on a silent peer, as torch's process groups do. Each fault strikes
once, in the attempt in which its time comes: FAULTS has its number, `hang`, `full` or `cut`, second and rank.
"""

from __future__ import annotations

import hashlib
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from slipway.containers.runtime.checkpoint.boxes import Box
from slipway.containers.runtime.checkpoint.checkpoints import Checkpoints, SaveFailed, Training
from slipway.containers.runtime.checkpoint.folder import CheckpointFolder
from slipway.containers.runtime.checkpoint.storage import FilePiece
from slipway.containers.runtime.checkpoint.tensor_file import TensorData
from slipway.containers.runtime.contract.contract import LaunchContract
from slipway.containers.runtime.errors import RESUMABLE_EXIT_CODE

STEP_SECONDS, SAVED_EVERY, TOLD_EVERY = 0.1, 20, 10
SILENT_SECONDS, MEETS_SECONDS = 5.0, 60.0
FULL_SECONDS = 10.0
contract = LaunchContract.from_environment(os.environ)
place = Path(os.environ["SLIPWAY_CHECKPOINTS"])
rank, world = contract.rank, contract.world


def meet() -> list[socket.socket]:
    """Return rank 0's connections to all others, and theirs to it."""
    ends = time.monotonic() + MEETS_SECONDS
    if rank == 0:
        with socket.create_server(("", contract.main_port)) as door:
            door.settimeout(MEETS_SECONDS)
            found = [door.accept()[0] for _ in range(1, world)]
    else:
        found = [reach(ends)] if world > 1 else []
    for each in found:
        each.settimeout(SILENT_SECONDS)
    return found


def reach(ends: float) -> socket.socket:
    while True:
        try:
            return socket.create_connection((contract.main_address, contract.main_port), SILENT_SECONDS)
        except OSError:
            if time.monotonic() > ends:
                raise
            time.sleep(0.1)


def together(peers: list[socket.socket], word: bytes) -> bytes:
    """Send rank 0's word to all once all have arrived; raise OSError for a peer that is silent or gone."""
    if rank == 0:
        for each in peers:
            hear(each)
        for each in peers:
            each.sendall(word)
        return word
    for each in peers:
        each.sendall(b"?")
        word = hear(each)
    return word


def hear(peer: socket.socket) -> bytes:
    if not (found := peer.recv(1)):
        raise ConnectionError("a peer has hung up")
    return found


def began() -> float:
    """Return when the first step of the first attempt began."""
    file = place / "began"
    if rank == 0 and not file.exists():
        file.with_suffix(".new").write_text(str(time.time()))
        file.with_suffix(".new").replace(file)
    while not file.exists():
        time.sleep(0.05)
    return float(file.read_text())


def strike(faults: list[tuple[int, str, float, int]], since: float) -> None:
    for number, kind, at, whose in faults:
        if whose == rank and 0 <= time.time() - since - at < SILENT_SECONDS:
            try:
                (place / f"struck-{number}").touch(exist_ok=False)
            except FileExistsError:
                continue
            print(f"stroke {number}: {kind}", flush=True)
            FAULTS[kind]()


def hang() -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


def cut() -> None:
    subprocess.run(["ip", "link", "set", "eth0", "down"], check=True)


def full() -> None:
    """Let no file grow for a while, so that writes fail as on a full disk."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, resource.RLIM_INFINITY))
    signal.signal(signal.SIGALRM, lambda *_: resource.setrlimit(resource.RLIMIT_FSIZE, (-1, -1)))
    signal.setitimer(signal.ITIMER_REAL, FULL_SECONDS)


FAULTS = {each.__name__: each for each in (hang, cut, full)}


def train(checkpoints: Checkpoints | None, peers: list[socket.socket], weights: bytes, step: int) -> None:
    faults = json.loads(os.environ["FAULTS"])
    since = began()
    ends = since + float(os.environ["UNTIL"])
    word = b"."
    if checkpoints is not None:
        tell(step, since)
    while word != b"!":
        time.sleep(STEP_SECONDS)
        strike(faults, since)
        word = together(peers, b"!" if time.time() > ends else b".")
        step += 1
        weights = hashlib.sha256(weights + step.to_bytes(8, "big")).digest()
        if checkpoints is not None and step % TOLD_EVERY == 0:
            tell(step, since)
        if checkpoints is not None and step % SAVED_EVERY == 0:
            save(checkpoints, step, weights)
    if rank == 0:
        print(json.dumps({"ended": step, "weights": weights.hex()}), flush=True)


def tell(step: int, since: float) -> None:
    print(json.dumps({"step": step, "at": round(time.time() - since, 2)}), flush=True)


def save(checkpoints: Checkpoints, step: int, weights: bytes) -> None:
    data = TensorData(dtype="U8", shape=(len(weights),), data=memoryview(weights))
    try:
        checkpoints.save(step, [FilePiece(name="w", box=Box.whole((len(weights),)), tensor=data)])
    except SaveFailed as failure:
        print(f"not saved: {failure}", flush=True)


def resumed(checkpoints: Checkpoints) -> tuple[bytes, int]:
    found = checkpoints.resume("auto")
    if found is None:
        return bytes(32), 0
    (piece,) = found.manifest.tensors["w"].pieces
    return bytes(found.read("w", piece, 0, 32)), found.step


def main() -> None:
    training = Training.of(contract, topology={}, config={})
    if rank == 0:
        with Checkpoints(CheckpointFolder(place / "saved"), training) as checkpoints:
            weights, step = resumed(checkpoints)
            train(checkpoints, meet(), weights, step)
    else:
        train(None, meet(), b"", 0)


try:
    main()
except OSError as error:
    print(f"gives up: {error}", flush=True)
    sys.exit(RESUMABLE_EXIT_CODE)
