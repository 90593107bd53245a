"""The declared clusters as JSON, for those who may not import infra: `python -m infra.declared`.

Exit code 2 and the problems in place of the clusters where the declarations are wrong.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict

from infra.checks.field_types import field_types
from infra.checks.values import nearest
from infra.config import Cluster
from infra.overrides import apply
from jobs.core.errors import InvalidConfig, Problem


def load(context: Mapping[str, object]) -> tuple[Cluster, ...]:
    """What clusters.py declares, with the context's overrides, checked. The one way to the declarations."""
    try:
        from infra.clusters import CLUSTERS
    except TypeError as error:
        raise InvalidConfig([_misspelt(str(error))]) from error
    return apply(context, CLUSTERS)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m infra.declared", description=__doc__)
    parser.add_argument("-c", "--context", action="append", default=[], metavar="KEY=VALUE")
    context = dict(text.partition("=")[::2] for text in parser.parse_args(arguments).context)
    try:
        clusters = load(context)
    except InvalidConfig as error:
        print(json.dumps({"problems": [asdict(problem) for problem in error.problems]}, indent=2))
        return error.exit_code
    print(json.dumps({"clusters": [{"kind": each.kind, **asdict(each)} for each in clusters]}, indent=2))
    return 0


def _misspelt(message: str) -> Problem:
    """A setting that the entry's class lacks, or that the entry leaves out, is Python's TypeError."""
    entry, _, said = message.partition(".__init__() ")
    kind = next((each for each in Cluster.__subclasses__() if each.__name__ == entry), Cluster)
    unknown = re.search(r"unexpected keyword argument '(\w+)'", said)
    hint = nearest(unknown[1], tuple(field_types(kind))) if unknown else "add it to the entry"
    said = f"'{unknown[1]}' is no setting" if unknown else said or message
    return Problem(where="infra/clusters.py", message=said, hint=hint)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
