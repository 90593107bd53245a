"""Prints the templates of one declared cluster and of its AMI's bakery, as JSON on standard output.

Commands in jobs, which import no CDK, read them by `python -m slipway.infra.templates CLUSTER`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from tempfile import TemporaryDirectory

import aws_cdk as cdk

from slipway.infra.build.bakeries import build_bakeries
from slipway.infra.build.clusters import BUILDERS
from slipway.infra.build.parts import NOTHING_GIVEN
from slipway.infra.declare.cdk_json import read_context
from slipway.infra.declare.declared import load, load_machine_images
from slipway.infra.declare.node_images import ami_parameter_of
from slipway.infra.declare.types import Cluster, NodeCluster
from slipway.jobs.words.errors import SlipwayError, in_lines
from slipway.jobs.words.images.amis import ami_parameter
from slipway.jobs.words.installation import find_project


def main(arguments: Sequence[str]) -> int:
    try:
        name = " ".join(arguments)
        found = [cluster for cluster in load({}) if cluster.name == name]
        if not found:
            hint = "slipway cluster list lists them"
            raise SlipwayError(f"no cluster '{name}' is declared", hint=hint)
    except SlipwayError as error:
        print(in_lines(error), file=sys.stderr)
        return error.exit_code
    json.dump(templates(found[0]), sys.stdout)
    return 0


def templates(cluster: Cluster) -> dict[str, object]:
    """Synthesize the cluster's stacks, and those that bake its AMI if it is baked here."""
    wanted = ami_parameter_of(cluster) if isinstance(cluster, NodeCluster) else None
    images = [image for image in load_machine_images() if ami_parameter(image.name) == wanted]
    with TemporaryDirectory() as folder:
        app = cdk.App(outdir=folder, context=dict(read_context(find_project().folder)))
        BUILDERS[type(cluster)](app, cluster, NOTHING_GIVEN)
        build_bakeries(app, images)
        return {stack.stack_name: stack.template for stack in app.synth().stacks_recursively}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
