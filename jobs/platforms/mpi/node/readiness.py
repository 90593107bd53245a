"""Is the cluster ready? When its nodes have changed, the main node asks all for an all-reduce together."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence

from slipway.containers.runtime.contract import variables
from slipway.jobs.platforms.mpi.node.agreement import ask_facts
from slipway.jobs.platforms.mpi.node.facts import find_program
from slipway.jobs.platforms.mpi.node.lock import CHECK, lock_cluster
from slipway.jobs.platforms.mpi.node.mpirun import MpirunWork, run_everywhere
from slipway.jobs.platforms.mpi.node.run import say, scratch
from slipway.jobs.platforms.mpi.node.setting import NodePaths, Setup
from slipway.jobs.words.mpi.mpi_nodes import Answer, Member, Readiness

_SECONDS = {
    variables.RENDEZVOUS_SECONDS: "60",
    variables.COLLECTIVE_SECONDS: "60",
    variables.TIMEOUT_SECONDS: "120",
}


def check(where: NodePaths, setup: Setup, members: Sequence[Member]) -> Readiness:
    """Run the all-reduce as the cluster's user, without nodes that do not answer."""
    with lock_cluster(where, CHECK) as lock, scratch() as folder:
        facts, problems = ask_facts(where, [member.name for member in members], setup.mpi)
        unlike = {host for host in problems if host in facts and not facts[host].running}
        able = [member for member in members if member.name not in problems]
        program = find_program(setup.mpi)
        if able and program:
            work = MpirunWork(
                job=CHECK,
                members=able,
                module="slipway.jobs.platforms.mpi.node.allreduce",
                arguments=(),
                environment={variables.JOB: CHECK, variables.NODES: str(len(able)), **_SECONDS},
                processes_per_node=1,
                mpi=setup.mpi,
                program=program,
                facts=facts[able[0].name],
                efa_interfaces=0,
                code=None,
            )
            ended = run_everywhere(where, work, folder, lock, say)
            problems |= _problems(able, ended.code, ended.dead)
    return summarise(members, problems, setup.nodes, int(time.time()), unlike)


def summarise(
    members: Sequence[Member],
    problems: Mapping[str, str],
    wanted: int,
    at: int,
    lasting: Collection[str] = (),
) -> Readiness:
    """Summarise the answers; `lasting` hosts have problems that waiting does not solve."""
    answers = tuple(
        Answer(
            name=member.name,
            instance_id=member.instance_id,
            answered=member.name not in problems,
            why=problems.get(member.name, ""),
            lasts=member.name in lasting,
        )
        for member in members
    )
    ready = len(answers) >= wanted and all(answer.answered for answer in answers)
    return Readiness(nodes=answers, ready=ready, at=at)


def _problems(able: Sequence[Member], code: int, dead: Sequence[str]) -> dict[str, str]:
    if code == 0:
        return {}
    if dead:
        return dict.fromkeys(dead, "it was lost during the all-reduce")
    why = f"the all-reduce of all nodes ended with exit code {code}; the main node's log says why"
    return {each.name: why for each in able}
