"""The entrypoint of every container: check the node, meet the other nodes, and run one process per device.

`python -m slipway.containers.runtime.launch --module MODULE -- ARGUMENT…`, where MODULE trains one rank.
It ends with the training's exit code: 85 asks the platform for another attempt, 2 is the user's mistake.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from slipway.containers.runtime.contract import launchers, variables
from slipway.containers.runtime.contract.contract import LaunchContract
from slipway.containers.runtime.contract.launchers import read_position
from slipway.containers.runtime.errors import Refusal
from slipway.containers.runtime.exit_reports import ExitReport
from slipway.containers.runtime.launch import assignment, supervise
from slipway.containers.runtime.launch.assignment import (
    ROOT_VARIABLE,
    Node,
    contracts_of,
    has_accelerators,
    rank_environment,
    read_node,
)
from slipway.containers.runtime.launch.node_roles import ChildSupervisor, MainSupervisor
from slipway.containers.runtime.launch.supervise import Watch
from slipway.containers.runtime.launch.team import Guard, RankCommand, Team
from slipway.containers.runtime.observe.log_pump import LogPump
from slipway.containers.runtime.observe.metric_files import relayed
from slipway.containers.runtime.observe.progress import Progress
from slipway.containers.runtime.rendezvous.hub import Hub
from slipway.containers.runtime.rendezvous.peers import Alone, Peers, SignalPipe
from slipway.containers.runtime.rendezvous.spoke import Spoke

_LOG_SECONDS = 5.0


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m slipway.containers.runtime.launch",
        usage="%(prog)s --module MODULE -- ARGUMENT…",
    )
    parser.add_argument("--module", required=True, help="the Python module that every rank runs")
    given = list(sys.argv[1:] if arguments is None else arguments)
    at = given.index("--") if "--" in given else len(given)  # everything after it belongs to the module
    code = _launch(parser.parse_args(given[:at]).module, given[at + 1 :])
    _write_exit_code(code)
    return code


def _launch(module: str, arguments: list[str]) -> int:
    try:
        node = read_node(os.environ, module, arguments)
    except Refusal as refusal:
        return refuse(refusal)
    guard = Guard()  # before any thread
    pump = LogPump(node.place.rank)
    ending = _run(node, guard, pump)
    # People read the last lines of a job's log first.
    if ending.tail and ending.code != 0:
        pump.say(f"the last output of rank {ending.rank}:")
        for line in ending.tail:
            pump.say(f"  {line}")
    pump.say(f"{'error: ' if ending.code else ''}{ending.reason}; exit code {ending.code}")
    if ending.code != 0:
        words = "\n".join([f"{ending.reason}; exit code {ending.code}", *ending.tail])
        _write_failure(os.environ, node.machine.root, words)
    pump.close(_LOG_SECONDS)
    return ending.code


def refuse(refusal: Refusal) -> int:
    """Report why nothing is started, also where the platform looks for it; return the exit code."""
    print(f"error: {refusal}", file=sys.stderr, flush=True)
    _write_failure(os.environ, Path(os.environ.get(ROOT_VARIABLE, "/")), str(refusal))
    return refusal.exit_code


def _write_exit_code(code: int) -> None:
    """Write it where mpirun's caller looks: MPICH joins the exit codes of all ranks by a bitwise or."""
    path = os.environ.get(variables.EXIT_FILE)
    if not path:
        return
    with suppress(Refusal):
        if read_position(os.environ).rank == 0:
            Path(path).write_text(str(code), encoding="ascii")


def _run(node: Node, guard: Guard, pump: LogPump) -> ExitReport:
    signals = SignalPipe()
    folder = Path(tempfile.mkdtemp(prefix="slipway-"))
    peers: Peers | None = None
    try:
        peers = _peers(node, signals, pump)
        port = peers.meet(time.monotonic() + node.settings.rendezvous_seconds)
        return _train(node, peers, port, Team(node.machine, guard, pump), folder)
    except Refusal as refusal:
        ending = ExitReport(code=refusal.exit_code, reason=str(refusal))
        if peers is not None:
            peers.tell({"end": ending.to_json()})
        return ending
    finally:
        if peers is not None:
            peers.close()
        shutil.rmtree(folder, ignore_errors=True)


def _peers(node: Node, signals: SignalPipe, pump: LogPump) -> Peers:
    member, port, silence = node.member, node.place.main_port, node.settings.heartbeat_seconds
    if member.nodes == 1:
        return Alone(member, signals, port)
    if member.node == 0:
        return Hub(member, signals, port, silence, pump.say)
    return Spoke(member, signals, node.place.main_address, port, silence)


def _train(node: Node, peers: Peers, port: int, team: Team, folder: Path) -> ExitReport:
    progress = Progress(folder, node.settings)
    contracts = contracts_of(node, port)
    for line in _opening(node, contracts):
        team.say(line)
    try:
        with relayed(contracts[0], lambda line: team.say_for(0, line)):
            for contract in contracts:
                peers.beat()  # a starved machine may take long to start its ranks
                own = {variables.PROGRESS_FILE: str(progress.file_of(contract.rank))}
                environment = {**rank_environment(node.environment, contract, folder), **own}
                team.start(
                    RankCommand(
                        rank=contract.rank,
                        module=node.settings.module,
                        arguments=node.settings.arguments,
                        environment=environment,
                    )
                )
            with supervise.listening(node.settings, peers.member.node, team.say) as notice:
                watch = Watch(
                    settings=node.settings,
                    team=team,
                    peers=peers,
                    progress=progress,
                    notice=notice,
                    contract=contracts[0],
                    has_accelerators=has_accelerators(node.environment),
                    say=team.say,
                    root=node.machine.root,
                    signs=node.signs_after_failure,
                )
                role = MainSupervisor if peers.member.node == 0 else ChildSupervisor
                return role(watch).run()
    finally:
        team.end()


def _opening(node: Node, contracts: Sequence[LaunchContract]) -> list[str]:
    first, last = contracts[0], contracts[-1]
    ranks = f"ranks {first.rank} to {last.rank} of {first.world}"
    lines = [f"{first.job}, attempt {first.attempt}: {ranks} start on {node.machine.host()}"]
    if first.local_rank == 0:  # of a node, however many launchers it has
        lines += assignment.notes(node.settings, node.machine.root)
    if given := node.environment.get("TORCH_EXTENSIONS_DIR"):
        # F51: whoever builds the same operator waits for the lock, and its holder is dead.
        why = "is left from a build that was killed, and ranks would wait for it forever; delete it"
        lines += [f"warning: {lock} {why}" for lock in Path(given).glob("**/lock")]
    return lines


# The file in which a launcher looks for the reason of a failure: one row per launcher that has one.
# SageMaker shows the first 1024 characters as FailureReason
# (SageMaker AI Developer Guide, "How Amazon SageMaker AI Processes Training Output").
_FILES: Mapping[str, str] = {"sagemaker": "opt/ml/output/failure"}
_MOST_CHARACTERS = 1024


def _write_failure(environment: Mapping[str, str], root: Path, reason: str) -> None:
    """Write the reason where the launcher looks for it, if it looks anywhere; the log has the reason in
    any case."""
    for launcher, name in _FILES.items():
        if not launchers.LAUNCHERS[launcher].recognises(environment):
            continue
        with suppress(OSError):
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(reason[:_MOST_CHARACTERS], encoding="utf-8", errors="backslashreplace")
