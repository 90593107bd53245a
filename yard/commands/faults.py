"""`slipway yard faults`: see, set and clear the faults of a running yard, by name or for single calls."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from slipway.containers.runtime.named_files import read_text
from slipway.jobs.output import Column, json_option, print_json, print_table, say
from slipway.jobs.words.errors import SlipwayError
from slipway.yard.commands.asking import ask, running_yard

if TYPE_CHECKING:
    from slipway.yard.chaos.switches import ChosenFaults

MOST_BODY_BYTES = 16 << 20
# A copy of the list in gateway/faults.py, so that help and completion need not load it. A test compares them.
FAULT_KINDS = ("throttle", "server-error", "drop-response", "insufficient-capacity", "respond")

SWITCHES = (
    Column(name="name", title="fault"),
    Column(name="value", align="right"),
    Column(name="unit"),
    Column(name="struck", align="right"),
    Column(name="does", title="what it does"),
)
CALLS = (
    Column(name="service"),
    Column(name="operation"),
    Column(name="kind"),
    Column(name="times", align="right", absent="until cleared"),
    Column(name="struck", align="right"),
)

T = TypeVar("T")


@click.group(invoke_without_command=True)
@json_option
@click.pass_context
def faults(context: click.Context, as_json: bool) -> None:
    """List, set and clear faults, to see how tools and jobs react.

    Without a command: list all faults by name with their values (0 is off), and the calls that are made to
    fail. All random faults draw from one seed, so a run can be repeated.

    \b
    slipway yard up --chaos 7
    slipway yard faults set throttling=50 packet-loss=2
    slipway yard faults add batch SubmitJob throttle --times 3
    """
    if context.invoked_subcommand is not None:
        return
    from slipway.yard.gateway.faults import scripted

    found: dict[str, Any] = ask("GET", "/switches")
    calls = scripted(running_yard())
    if as_json:
        print_json({**found, "calls": calls})
        return
    print_table("", SWITCHES, found["switches"], as_json=False)
    say(f"the seed is {found['seed']}")
    print_table("calls made to fail", CALLS, calls, as_json=False)


@faults.command(name="set", short_help="Switch faults on or off on the running yard.")
@click.argument("words", metavar="NAME[=VALUE]...", nargs=-1, required=True)
@click.option("--seed", metavar="SEED", help="Restart all random draws with this seed.")
def set_faults(words: tuple[str, ...], seed: str | None) -> None:
    """Switch faults on or off on the running yard: NAME alone takes the usual value, NAME=0 is off."""
    from slipway.yard.chaos.switches import checked_seed, decode

    values = _checked(lambda: decode(words))
    number = None if seed is None else _checked(lambda: checked_seed(seed))
    ask("POST", "/switches", {"values": values, "seed": number})
    say(f"faults: {_words(values)}")


@faults.command(short_help="Switch off faults: the named ones, or all.")
@click.argument("names", metavar="[NAME]...", nargs=-1)
def clear(names: tuple[str, ...]) -> None:
    """Switch off the faults named NAME; without a name all of them, and all faults of single calls."""
    from slipway.yard.chaos.switches import SWITCHES as KNOWN
    from slipway.yard.chaos.switches import decode
    from slipway.yard.gateway.faults import unscript

    off = _checked(lambda: decode(f"{name}=0" for name in names or KNOWN))
    ask("POST", "/switches", {"values": off})
    if not names:
        unscript(running_yard())
    say(f"switched off {', '.join(names)}" if names else "removed all faults")


@faults.command()
@click.argument("service")
@click.argument("operation")
@click.argument("kind", type=click.Choice(FAULT_KINDS))
@click.option(
    "--times", type=click.IntRange(1), default=1, show_default=True, help="Number of calls that fail."
)
@click.option("--always", is_flag=True, help="Fail every call until the fault is cleared.")
@click.option(
    "--body",
    type=click.Path(path_type=Path),
    help="For respond: file with a JSON list of results, one per call.",
)
def add(service: str, operation: str, kind: str, times: int, always: bool, body: Path | None) -> None:
    """Make calls to OPERATION of SERVICE fail.

    SERVICE is boto3's name; OPERATION is AWS's name, or "*" for all operations of the service.

    \b
    slipway yard faults add batch SubmitJob throttle --times 3
    """
    from slipway.yard.gateway.faults import Fault, FaultKind, script

    rule = _checked(
        lambda: Fault(
            service=service,
            operation=operation,
            kind=FaultKind(kind),
            times=None if always else times,
            body=_results(body),
        )
    )
    script(running_yard(), rule)
    say(f"added: {kind} on {service}:{operation}, {'until cleared' if always else f'{times} times'}")


def chosen(chaos: str | None, words: Iterable[str]) -> ChosenFaults | None:
    """Return the faults that `slipway yard up` was asked for; None if there are none."""
    from slipway.yard.chaos.switches import choose

    return _checked(lambda: choose(chaos, words))


def summary(asked: ChosenFaults) -> str:
    return f"faults, of seed {asked.seed}: {_words(asked.values)}"


def _words(values: Any) -> str:
    return ", ".join(f"{name}={value:g}" for name, value in values.items())


def _checked(read: Callable[[], T]) -> T:
    try:
        return read()
    except ValueError as error:
        raise SlipwayError(str(error), hint="slipway yard faults --help") from error


def _results(body: Path | None) -> list[Any]:
    found = json.loads(read_text(body, MOST_BODY_BYTES)) if body else []
    if not isinstance(found, list) or not all(isinstance(result, dict) for result in found):
        raise ValueError("--body is not a JSON list of objects; give one object for the result of each call")
    return found
