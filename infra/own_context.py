"""Refuses settings in the context of a user's own app that begin with the name of no cluster of the app."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import aws_cdk as cdk
from aws_cdk import cx_api
from constructs import IConstruct

from slipway.infra.declare.overrides import strays
from slipway.infra.declare.types import Cluster
from slipway.infra.patterns.declared_stack import DeclaredStack
from slipway.infra.refused_cluster import RefusedCluster
from slipway.jobs.words.errors import InvalidConfig


def check_context_at_synthesis(scope: cdk.Stage) -> None:
    """Let the app's synth() end with one line for each such key, in place of a deployment without it.

    Only then are all clusters of the app known. An error annotation would stop the stacks that carry it and
    no other, and print itself once for each.
    """
    app = scope.node.root
    assert isinstance(app, cdk.Stage)
    if "synth" in vars(app):
        return
    synthesize = app.synth

    def checked(**options: Any) -> cx_api.CloudAssembly:
        _refuse_strays(app)
        return synthesize(**options)

    app.synth = checked  # type: ignore[method-assign]  # the CDK calls nobody before it synthesizes


def _refuse_strays(app: cdk.Stage) -> None:
    clusters = [stack.declared for stack in _stacks(app) if isinstance(stack.declared, Cluster)]
    if problems := strays(app.node.get_all_context(), clusters):
        raise RefusedCluster(InvalidConfig(problems)) from None


def _stacks(scope: IConstruct) -> Iterator[DeclaredStack]:
    for child in scope.node.children:
        if isinstance(child, DeclaredStack):
            yield child
        elif isinstance(child, cdk.Stage):
            yield from _stacks(child)
