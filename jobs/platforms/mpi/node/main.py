"""`slipway-node`: the program of a node of an MPI cluster. A new word is a function and a row of WORDS."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from slipway.jobs.platforms.mpi.node.setting import node_paths, read_setup
from slipway.jobs.platforms.on_nodes import Words, run_word


def main(arguments: Sequence[str] | None = None) -> int:
    from slipway.jobs.platforms.mpi.node.mpirun import GRACE_SECONDS

    parser = argparse.ArgumentParser(prog="slipway-node", description=__doc__)
    words = parser.add_subparsers(dest="word", required=True, metavar="WORD")
    known = {name: words.add_parser(name, help=word.__doc__) for name, word in WORDS.items()}
    known["enter"].add_argument("hosts", nargs="+", metavar="HOST")
    known["run"].add_argument("key", metavar="KEY", help="of the request: jobs/<job>/request.json")
    known["stop"].add_argument("job", metavar="JOB")
    known["stop"].add_argument("--grace", type=float, default=GRACE_SECONDS, metavar="SECONDS")
    known["facts"].add_argument("mpi", metavar="MPI")
    known["code"].add_argument("digest", metavar="DIGEST")
    return run_word(WORDS, parser.parse_args(arguments))


def _serve(parsed: argparse.Namespace) -> int:
    """Join the cluster and stay in it."""
    from slipway.jobs.platforms.mpi.node.serve import serve

    serve(node_paths())
    return 0


def _check(parsed: argparse.Namespace) -> int:
    """Run an all-reduce over all nodes, and print who answered."""
    from slipway.jobs.platforms.mpi.node.job_credentials import become_cluster_user
    from slipway.jobs.platforms.mpi.node.run import check
    from slipway.jobs.platforms.mpi.nodes import find_members
    from slipway.jobs.words.mpi import encode_readiness

    where = node_paths()
    setup = read_setup(where)
    members = find_members(setup.cluster, setup.region)
    become_cluster_user()
    print(encode_readiness(check(where, setup, members)))
    return 0


def _enter(parsed: argparse.Namespace) -> int:
    """Log in to every host as jobs do; fail if one refuses."""
    from slipway.jobs.platforms.mpi.node.hosts import closed_to_jobs
    from slipway.jobs.platforms.mpi.node.job_credentials import become_cluster_user

    become_cluster_user()
    closed = closed_to_jobs(node_paths(), parsed.hosts)
    for each in closed:
        print(f"error: {each.host} lets no job in: {each.error}", file=sys.stderr)
    return 1 if closed else 0


def _release(parsed: argparse.Namespace) -> int:
    """Let the group of the nodes scale in again, unless a job runs."""
    from slipway.jobs.platforms.mpi.node.job_credentials import become_cluster_user
    from slipway.jobs.platforms.mpi.node.lock import CHECK, lock_cluster
    from slipway.jobs.platforms.mpi.node.run import release

    where = node_paths()
    setup = read_setup(where)
    become_cluster_user()
    with lock_cluster(where, CHECK):
        is_done = release(setup, lambda line: print(line, file=sys.stderr))
    return 0 if is_done else 1


def _run(parsed: argparse.Namespace) -> int:
    """Run the job of a request in S3, on the main node."""
    from slipway.jobs.platforms.mpi.node.run import run_job

    where = node_paths()
    return run_job(where, read_setup(where), parsed.key)


def _stop(parsed: argparse.Namespace) -> int:
    """End every process of a job on this node."""
    from slipway.jobs.platforms.mpi.node.facts import clear_memory, end_processes
    from slipway.jobs.platforms.mpi.node.ssh_trust import cluster_user

    left = end_processes(parsed.job, parsed.grace)
    if node_paths().is_machine:  # otherwise the memory is that of the machine which imitates this one
        clear_memory(cluster_user().uid)
    if left:
        print(f"error: processes {', '.join(map(str, left))} of {parsed.job} do not end", file=sys.stderr)
    return 1 if left else 0


def _facts(parsed: argparse.Namespace) -> int:
    """Print what this node has, for the main node to compare."""
    from slipway.jobs.platforms.mpi.node.facts import encode_facts, own_facts

    print(encode_facts(own_facts(parsed.mpi)))
    return 0


def _code(parsed: argparse.Namespace) -> int:
    """Fetch the code of a job, if nodes share no files."""
    from slipway.jobs.cloud.aws import reader
    from slipway.jobs.platforms.mpi.node.run import ensure_code

    where = node_paths()
    setup = read_setup(where)
    ensure_code(where, setup, parsed.digest, reader("s3", setup.region))
    return 0


WORDS: Words = {
    "serve": _serve,
    "check": _check,
    "enter": _enter,
    "release": _release,
    "run": _run,
    "stop": _stop,
    "facts": _facts,
    "code": _code,
}


if __name__ == "__main__":
    sys.exit(main())
