"""Builds every declared cluster and machine image; `cdk` runs it as `python -m slipway.infra`.

Synthesis is a pure function of the declarations, the catalogue and containers/: it asks neither AWS nor git
nor a clock.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

import aws_cdk as cdk

from slipway.infra.build.bakeries import build_bakeries
from slipway.infra.build.clusters import BUILDERS
from slipway.infra.build.parts import NOTHING_GIVEN
from slipway.infra.declare.cdk_json import feature_flags, refuse_repeated_keys
from slipway.infra.declare.declared import load, load_machine_images
from slipway.infra.declare.machine_images import MachineImage
from slipway.infra.declare.types import Cluster
from slipway.infra.verify.accepted_lint import acknowledge_lint
from slipway.jobs.words.errors import SlipwayError, in_lines


def main() -> int:
    app = cdk.App(context=dict(feature_flags()))  # the command line's context takes precedence
    try:
        refuse_repeated_keys(Path.cwd())
        gated = os.environ.get("CDK_VALIDATION") != "false"
        if not gated:
            print("warning: CDK_VALIDATION=false: no gate looks at these templates", file=sys.stderr)
        build(app, load(app.node.get_all_context()), load_machine_images(), gated=gated)
    except SlipwayError as error:
        print(in_lines(error), file=sys.stderr)
        return error.exit_code
    app.synth()
    return 0


def build(
    app: cdk.App, clusters: Sequence[Cluster], images: Sequence[MachineImage] = (), *, gated: bool = True
) -> None:
    """Add all their stacks to the app, which refuses to synthesize on a finding of cdk-nag's."""
    for cluster in clusters:
        BUILDERS[type(cluster)](app, cluster, NOTHING_GIVEN)
    build_bakeries(app, images)
    stacks = [stack for stack in app.node.children if isinstance(stack, cdk.Stack)]
    acknowledge_lint(stacks)
    if gated:
        from slipway.infra.verify.nag import add_nag_checks  # a tenth of the synthesis

        add_nag_checks(app, stacks)


if __name__ == "__main__":
    sys.exit(main())
