"""Completes names after Tab, from this machine's files alone, because the user is waiting.

Another kind of name is a function here, which an argument or option takes as its shell_complete.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress

import click

from slipway.jobs.words.errors import SlipwayError

Completer = Callable[[click.Context, click.Parameter, str], list[str]]
_MOST_JOBS = 50


def _completer(*sources: Callable[[str], Iterable[str]]) -> Completer:
    """Return a completer that offers the names of these sources in order; a source that fails offers none."""

    def complete(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
        found: list[str] = []
        for names in sources:
            with suppress(SlipwayError, OSError):
                found += [name for name in names(incomplete) if name.startswith(incomplete)]
        return list(dict.fromkeys(found))

    return complete


def _clusters(_incomplete: str) -> Iterator[str]:
    from slipway.infra.declare.declared import declared_clusters

    yield from (cluster.name for cluster in declared_clusters())


def _types(incomplete: str) -> Iterable[str]:
    from slipway.jobs.words.catalogue.instances import names_like

    return names_like(incomplete)


def _jobs(_incomplete: str) -> Iterator[str]:
    """Yield the jobs that this machine submitted to where the shell points (AWS or a yard), newest first."""
    from slipway.jobs.cloud.aws import endpoint
    from slipway.jobs.platforms.journal import submitted_entries

    sent = sorted(submitted_entries(endpoint()), key=lambda entry: entry.written_at, reverse=True)
    yield from (entry.name for entry in sent[:_MOST_JOBS])


def _recipes(_incomplete: str) -> Iterator[str]:
    from slipway.jobs.code.own_recipes import own_names
    from slipway.jobs.words.recipes import RECIPES

    yield from RECIPES
    yield from own_names()


complete_cluster = _completer(_clusters)
complete_type = _completer(_types)
complete_place = _completer(_clusters, _types)
complete_job = _completer(_jobs)
complete_recipe = _completer(_recipes)
complete_recipe_or_job = _completer(_recipes, _jobs)
