"""The program of a Slurm cluster's nodes. A new word is a function and a row of WORDS.

Systems Manager sends `submit`, `status` and `cancel` to the login node (jobs/words/slurm.py, ACTIONS); batch
scripts run `train`, and slurmd runs `check` before a job.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from slipway.jobs.platforms.on_nodes import Words, run_word
from slipway.jobs.platforms.slurm.node.setting import (
    SlurmNodeFacts,
    SlurmNodePaths,
    needed,
    node_paths,
    read_facts,
)
from slipway.jobs.words.errors import SlipwayError


def main(arguments: Sequence[str] | None = None) -> int:
    from slipway.jobs.platforms.slurm.node.train import add_arguments
    from slipway.jobs.words.slurm import ACTIONS

    parser = argparse.ArgumentParser(prog="python -m slipway.jobs.platforms.slurm.node.main")
    words = parser.add_subparsers(dest="word", required=True, metavar="WORD")
    known = {name: words.add_parser(name, help=word.__doc__) for name, word in WORDS.items()}
    for name in ACTIONS:
        known[name].add_argument("request", nargs="?", default="", metavar="KEY")
        known[name].add_argument("digest", nargs="?", default="", metavar="DIGEST")
    add_arguments(known["train"])
    return run_word(WORDS, parser.parse_args(arguments))


def _submit(parsed: argparse.Namespace) -> int:
    """Give the job of a request in S3 to Slurm, unless Slurm has it; print its id."""
    from slipway.jobs.cloud.aws import reader
    from slipway.jobs.platforms.on_nodes import ensure_unpacked
    from slipway.jobs.platforms.slurm.node.submitting import read_request, submit_once

    where, facts = _begin()
    s3 = reader("s3", facts.region)
    bucket = needed(facts.bucket, "bucket", where)
    job = read_request(s3, bucket, parsed.request, parsed.digest)
    ensure_unpacked(_code(where, facts) / job.code, job.code, bucket, s3)
    print(submit_once(job, _runs(where, facts) / job.name, facts.slurm_version))
    return 0


def _status(parsed: argparse.Namespace) -> int:
    """Print what is known of one submission or all, as one line of JSON."""
    from slipway.jobs.platforms.slurm.node.attempts import read_standing
    from slipway.jobs.words.job import name_of
    from slipway.jobs.words.slurm import encode_answer

    where, facts = _begin()
    name = name_of(parsed.request)
    print(encode_answer(read_standing(_runs(where, facts), name, facts.slurm_version)))
    return 0


def _cancel(parsed: argparse.Namespace) -> int:
    """End a submission's jobs, those that wait, too."""
    from slipway.jobs.platforms.slurm.node.submitting import cancel
    from slipway.jobs.words.job import name_of

    _, facts = _begin()
    name = name_of(parsed.request)
    if name is None:
        raise SlipwayError(
            f"'{parsed.request[:80]}' is not the key of a request; allowed is jobs/NAME/request.json",
            hint="slipway status --all lists the names",
        )
    print(cancel(name, facts.slurm_version))
    return 0


def _train(parsed: argparse.Namespace) -> int:
    """Run one attempt of a job in its allocation, for a batch script."""
    from slipway.jobs.platforms.slurm.node.train import train_words
    from slipway.jobs.platforms.slurm.node.training_job import train

    where = node_paths()
    return train(where, read_facts(where), train_words(parsed))


def _check(parsed: argparse.Namespace) -> int:
    """Count this node's devices and run an all-reduce over them; drain the node if it is not fit."""
    from slipway.jobs.platforms.slurm.node.health import check_node

    where = node_paths()
    return check_node(where, read_facts(where))


def _environment(parsed: argparse.Namespace) -> int:
    """Print the Neuron variables that jobs get on this node, each with its reason."""
    from slipway.jobs.platforms.slurm.node.neuron_environment import describe

    where = node_paths()
    print(describe(where, read_facts(where)))
    return 0


WORDS: Words = {
    "submit": _submit,
    "status": _status,
    "cancel": _cancel,
    "train": _train,
    "check": _check,
    "environment": _environment,
}


def _begin() -> tuple[SlurmNodePaths, SlurmNodeFacts]:
    from slipway.jobs.platforms.slurm.node.users import become_job_user, folders_of_all, open_folders

    where = node_paths()
    facts = read_facts(where)
    open_folders(folders_of_all(where, facts))
    become_job_user((_runs(where, facts), _code(where, facts)))
    return where, facts


def _runs(where: SlurmNodePaths, facts: SlurmNodeFacts) -> Path:
    return where.below(f"{facts.shared}/jobs")


def _code(where: SlurmNodePaths, facts: SlurmNodeFacts) -> Path:
    return where.below(f"{facts.shared}/slipway/code")


if __name__ == "__main__":
    sys.exit(main())
