"""Do the hosts of a job answer, and do they have the same? Asked of all at once, before a rank starts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from slipway.jobs.platforms.mpi.node.facts import NodeFacts, decode_facts, differences
from slipway.jobs.platforms.mpi.node.hosts import Said, ask_all
from slipway.jobs.platforms.mpi.node.setting import NodePaths
from slipway.jobs.words.errors import SlipwayError
from slipway.jobs.words.retries import RETRY_EXIT_CODE


class DeadHost(SlipwayError):
    """A machine failed the job; another attempt or another machine may succeed."""

    exit_code = RETRY_EXIT_CODE


class UnlikeHosts(SlipwayError):
    """The hosts differ: ranks would train two models as one, or wait for each other forever."""

    exit_code = 2


def agree(where: NodePaths, hosts: Sequence[str], mpi: str) -> NodeFacts:
    """Return the facts that all hosts have in common; refuse hosts that differ or do not answer."""
    facts, problems = ask_facts(where, hosts, mpi)
    refuse_dead({host: why for host, why in problems.items() if host not in facts})
    if problems:
        raise UnlikeHosts(
            "; ".join(problems.values()),
            hint="replace the nodes so that all start from one AMI; to end a leftover job: slipway cancel",
        )
    return facts[hosts[0]]


def refuse_dead(why_silent: Mapping[str, str]) -> None:
    """Refuse hosts that do not answer, given with the reason of each."""
    if why_silent:
        named = "; ".join(f"host {host} does not answer: {why}" for host, why in why_silent.items())
        raise DeadHost(named, hint="end the instance, and its group starts another")


def ask_facts(
    where: NodePaths, hosts: Sequence[str], mpi: str
) -> tuple[dict[str, NodeFacts], dict[str, str]]:
    """Return the facts of the hosts that answered, and the problems by host."""
    said = ask_all(where, hosts, ["facts", mpi])
    facts = {each.host: found for each in said if (found := decode_facts(each.output)) is not None}
    problems = {each.host: _silence(each) for each in said if each.host not in facts}
    main = next(iter(facts), None)
    for host, found in facts.items():
        assert main is not None
        wrong = [*differences(host, found, main, facts[main]), *_own_problems(host, found, mpi)]
        if wrong:
            problems[host] = ", ".join(wrong)
    return facts, problems


def _own_problems(host: str, facts: NodeFacts, mpi: str) -> list[str]:
    found = []
    if facts.mpi.startswith("none"):
        found.append(f"{host} has no {mpi} ({facts.mpi})")
    if facts.running:
        found.append(f"{host} still runs {facts.running}")
    return found


def _silence(said: Said) -> str:
    return said.error or "it said nothing of itself"
