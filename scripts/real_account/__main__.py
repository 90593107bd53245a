"""Run `scripts/acceptance`: show the price, ask, try the claims, and remove everything again."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TypedDict, Unpack

import click

from scripts.real_account.account import ROOT, Account, Interrupted
from scripts.real_account.all_claims import CLAIMS, NAMES, NOTHING_LEFT, write_report
from scripts.real_account.around import look_around, nothing_left, take_away
from scripts.real_account.claims import Claim, ClaimOutcome
from scripts.real_account.clusters import BY_NAME, CLUSTERS, SLURM, STAGES
from scripts.real_account.price import PricedThing, at_most, total
from scripts.real_account.trying import Journal, open_journal, try_claims
from slipway.jobs.cli.options import finite
from slipway.jobs.cloud.aws import Unanswered, ask, reader
from slipway.jobs.output import Column, complain, print_table, say
from slipway.jobs.words.errors import SlipwayError
from slipway.jobs.words.text import dollars, money

_INTERRUPTED = 130
_STATE = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "slipway" / "acceptance"
_MORE_THAN_0 = click.FloatRange(min=0, min_open=True)


class Asked(TypedDict):
    """Holds the options of the command."""

    email: str
    confirmed: str | None
    region: str
    claims: str | None
    limit_usd: float
    controller_usd_per_hour: float | None
    hours: float
    state: Path
    report: Path | None


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--email", required=True, help="Address that alarms are to reach; AWS mails it to confirm.")
@click.option("--account", "confirmed", help="Number of the account, in place of typing it.")
@click.option("--region", default="us-east-1", show_default=True, help="Region to deploy to.")
@click.option("--claims", help=f"Claims to try, comma-separated. Known: {', '.join(NAMES)}. Default: all.")
@click.option(
    "--limit-usd", type=_MORE_THAN_0, callback=finite, default=30, show_default=True, help="Most to spend."
)
@click.option(
    "--controller-usd-per-hour",
    type=_MORE_THAN_0,
    callback=finite,
    help="Price of a small controller of AWS PCS, from AWS's page of prices. Without it, Slurm is not tried.",
)
@click.option(
    "--hours",
    type=_MORE_THAN_0,
    callback=finite,
    default=4,
    show_default=True,
    help="Take everything away after this time.",
)
@click.option("--state", type=click.Path(path_type=Path), default=_STATE, help="Folder of the journal.")
@click.option(
    "--report",
    type=click.Path(path_type=Path),
    help="File of the report. Default: docs/confirmed.md, or confirmed.md in --state for a yard.",
)
@click.option(
    "--from", callback=lambda *told: os.chdir(told[2] or "."), hidden=True, expose_value=False, is_eager=True
)
def main(**asked: Unpack[Asked]) -> None:
    """Try on a real account, for a few dollars, what the documentation promises.

    It makes small clusters and the bakeries of their AMIs, tries claim by claim, and takes everything
    away, whatever fails, also after Ctrl-C. Run it again after it was killed: it goes on where it stopped,
    and takes away what was left. Whatever stood in the account before is left alone.
    """
    region, state = asked["region"], asked["state"]
    state.mkdir(parents=True, exist_ok=True)
    answer = ask(reader("sts", region), "GetCallerIdentity")
    if isinstance(answer, Unanswered):
        raise SlipwayError(f"no account: {answer.code}, {answer.message[:200]}", hint="aws sso login")
    account = Account(
        number=str(answer["Account"]),
        region=region,
        email=asked["email"],
        ends_at=float("inf"),
        log=state / "log",
    )
    chosen = chosen_claims(asked["claims"], has_controller_price=asked["controller_usd_per_hour"] is not None)
    journal = open_journal(state / f"{account.number}-{region}.json", account.number, region)
    look_around(account, journal, chosen)
    _agree(account, chosen, asked)
    account.ends_at = time.monotonic() + 3600 * asked["hours"]
    default = state / "confirmed.md" if account.is_yard else ROOT / "docs" / "confirmed.md"
    sys.exit(_run(account, journal, chosen, asked["report"] or default))


def _run(account: Account, journal: Journal, chosen: Sequence[Claim], report: Path) -> int:
    """Try the claims, then remove everything in any case; a second signal does not stop that."""
    owners = {BY_NAME[claim.stage].owner for claim in chosen if claim.stage}
    was_interrupted = False
    try:
        _on_signals(_interrupt)
        try_claims(account, journal, chosen, say)
    except Interrupted:
        was_interrupted = True
        complain("interrupted: taking everything away, which takes minutes; please wait")
    finally:
        _on_signals(lambda *_: complain("still taking things away; please wait"))
        left = take_away(account, journal, say)
        account.evidence.clear()
        proof = nothing_left(account, owners, set(journal.kept))
        journal.decide(NOTHING_LEFT, proof)
        _report(account, journal, report)
    for words in left:
        complain(words, "run the same command again; slipway cluster leftovers lists what remains")
    refuted = [name for name, each in journal.proofs.items() if each.outcome is ClaimOutcome.REFUTED]
    say(f"refuted: {', '.join(refuted) or 'none'}; the report is {report}")
    if not left and not was_interrupted:
        journal.path.replace(journal.path.with_suffix(".done"))  # the next run starts from the beginning
    return _INTERRUPTED if was_interrupted else int(bool(left or refuted))


def _report(account: Account, journal: Journal, path: Path) -> None:
    write_report(
        path,
        journal.proofs,
        region=account.region,
        is_yard=account.is_yard,
        secrets=(account.number, account.email),
    )
    rows = [
        {"claim": name, "outcome": each.outcome, "seen": each.seen} for name, each in journal.proofs.items()
    ]
    print_table(
        "claims", (Column(name="claim"), Column(name="outcome"), Column(name="seen")), rows, as_json=False
    )


def chosen_claims(names: str | None, *, has_controller_price: bool) -> list[Claim]:
    """Return the named claims, else all; those of Slurm only if its controller's price was given."""
    if names is None:
        dear = {stage.name for stage in STAGES if stage.cluster is SLURM}
        return [claim for claim in CLAIMS if has_controller_price or claim.stage not in dear]
    wanted = [name.strip() for name in names.split(",")]
    if unknown := sorted(set(wanted) - set(NAMES)):
        raise SlipwayError(f"no claim is called {', '.join(unknown)}", hint=f"known are {', '.join(NAMES)}")
    return [claim for claim in CLAIMS if claim.name in wanted]


def _agree(account: Account, chosen: Sequence[Claim], asked: Asked) -> None:
    """Show what is made and what it costs at most; go on only if the account's number is confirmed."""
    lines = _priced(account, chosen, asked)
    most, limit_usd = total(lines), asked["limit_usd"]
    say(f"at most {money(most)} USD, builds and requests excepted; the limit is {money(limit_usd)} USD")
    if any(line.usd is None for line in lines):
        raise SlipwayError(
            "the price of something is not known",
            hint="use us-east-1; for Slurm add --controller-usd-per-hour, from aws.amazon.com/pcs/pricing",
        )
    if most > limit_usd:
        raise SlipwayError(
            f"{money(most)} USD are more than the limit",
            hint="lower --hours or --claims, or raise --limit-usd",
        )
    confirmed = asked["confirmed"]
    if confirmed is None and sys.stdin.isatty():
        confirmed = click.prompt(f"Everything is made in account {account.number}. Type its number", err=True)
    if confirmed != account.number:
        raise SlipwayError(
            f"the account is {account.number}, and {confirmed or 'nobody'} was confirmed",
            hint=f"scripts/acceptance --account {account.number}",
        )


def _priced(account: Account, chosen: Sequence[Claim], asked: Asked) -> list[PricedThing]:
    """Print what is made, with its price."""
    hours = asked["hours"]
    stages = {claim.stage for claim in chosen if claim.stage}
    clusters = [cluster for cluster in CLUSTERS if any(BY_NAME[name].cluster is cluster for name in stages)]
    bakes = [stage.cluster.baked for stage in STAGES if stage.is_bakery and stage.name in stages]
    lines = at_most(clusters, bakes, account.region, hours, asked["controller_usd_per_hour"])
    columns = (
        Column(name="what"),
        Column(name="usd", title="at most", unit="USD", align="right", format=dollars),
    )
    rows = [{"what": line.what, "usd": line.usd} for line in lines]
    print_table(f"what it makes in {account.region}, for {hours:g} hours", columns, rows, as_json=False)
    return lines


def _interrupt(*_: object) -> None:
    raise Interrupted


def _on_signals(handler: object) -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, handler)  # type: ignore[arg-type]  # one of ours


if __name__ == "__main__":
    try:
        main(prog_name="scripts/acceptance")
    except SlipwayError as error:
        complain(error.message, error.hint)
        sys.exit(error.exit_code)
