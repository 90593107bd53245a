"""Makes a project with only the clusters that a test deploys, so that `cdk` writes no other templates."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from slipway.jobs.words.installation import CDK_JSON, DECLARATIONS
from tests.end_to_end.conftest import Shell

_APP = {"app": "python -m slipway.infra"}
_CLUSTERS = """from slipway.infra.clusters import CLUSTERS as ALL

CLUSTERS = tuple(cluster for cluster in ALL if cluster.name in {names!r})
MACHINE_IMAGES = ()
"""


def begin_small_project(shell: Shell, folder: Path, *clusters: str) -> Shell:
    """Declare these clusters as the checkout does, in a folder of their own; return a shell in it.

    In the checkout itself each `cdk` command writes the templates of all clusters and bakeries.
    """
    (folder / CDK_JSON).write_text(json.dumps(_APP), encoding="utf-8")
    (folder / DECLARATIONS).write_text(_CLUSTERS.format(names=clusters), encoding="utf-8")
    return replace(shell, folder=folder)
