"""The base of every stack: it is in the declared account and region, and everything in it is tagged."""

from __future__ import annotations

from collections.abc import Mapping
from weakref import WeakKeyDictionary

from aws_cdk import Environment, Stack, Tags
from constructs import Construct

from slipway.infra.declare.cdk_json import feature_flags
from slipway.infra.declare.machine_images import MachineImage
from slipway.infra.declare.types import Cluster
from slipway.jobs.words.installation import PROJECT_KEY
from slipway.jobs.words.names import STACK_MARK


class DeclaredStack(Stack):
    """Leaves the account open if none is declared: it is then the credentials' account.

    In every Stage its name is its id, because commands find a cluster's stacks by name.
    """

    def __init__(
        self, scope: Construct, id: str, *, declared: Cluster | MachineImage, tags: Mapping[str, str]
    ) -> None:
        # Bakeries serve all projects of an account, and have no tag of one.
        project = project_of(scope) if isinstance(declared, Cluster) else None
        super().__init__(
            scope,
            id,
            stack_name=id,
            env=Environment(account=declared.account, region=declared.region),
            tags={PROJECT_KEY: project} if project else None,
        )
        self.declared = declared
        own, all_tags = self.node, Tags.of(self)
        own.add_metadata(STACK_MARK, declared.name)
        # Templates are the same in every app, whatever flags the app sets.
        said = _context(scope)
        for flag, value in feature_flags().items():
            if said.get(flag) != value:
                own.set_context(flag, value)
        for key, text in tags.items():
            all_tags.add(key, text)


# The context that stacks inherit from a scope: it cannot change once there is a stack. Each question is a
# call to the CDK's own process, and this one is answered with 90 flags.
_CONTEXTS: WeakKeyDictionary[Construct, Mapping[str, object]] = WeakKeyDictionary()


def project_of(scope: Construct) -> str | None:
    """Return the name of the project whose stacks are in the scope; a checkout of Slipway has none."""
    name = _context(scope).get(PROJECT_KEY)
    return str(name) if name else None


def _context(scope: Construct) -> Mapping[str, object]:
    if scope not in _CONTEXTS:
        _CONTEXTS[scope] = scope.node.get_all_context()
    return _CONTEXTS[scope]
