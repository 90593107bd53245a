"""Tries claim after claim: makes what each needs, and keeps what came of it before the next begins."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from scripts.real_account.account import Account, CommandFailed, TimeIsOver
from scripts.real_account.claims import Claim, Proof, judged, not_tried
from scripts.real_account.journal import Journal
from scripts.real_account.stages import BY_NAME, existing_stacks
from slipway.jobs.words.errors import SlipwayError

Say = Callable[[str], None]


@dataclass(slots=True, kw_only=True)
class Trials:
    """Knows what this run has made, and why something could not be."""

    account: Account
    journal: Journal
    say: Say
    made: set[str] = field(default_factory=set)
    failed: dict[str, str] = field(default_factory=dict)

    def make(self, name: str) -> None:
        """Deploy a stage; one that an earlier run began is deployed again, which changes nothing in it."""
        stage = BY_NAME[name]
        existing = existing_stacks(self.account)
        self.journal.begin(name, [stack for stack in stage.stacks(self.account.region) if stack in existing])
        self.say(f"making {name}")
        try:
            stage.make(self.account)
        except CommandFailed as error:
            self.failed[name] = str(error)
            raise NotMade(f"{name} could not be made: {error}") from None
        self.made.add(name)


class NotMade(Exception):
    """A stage could not be made; the claim for which it was made first is refuted by that."""


def try_claims(account: Account, journal: Journal, claims: Sequence[Claim], say: Say) -> None:
    """Decide each claim that an earlier run has not."""
    trials = Trials(account=account, journal=journal, say=say)
    for claim in claims:
        if claim.name in journal.proofs:
            continue
        account.evidence.clear()
        proof = replace(_try(trials, claim), evidence=tuple(account.evidence))
        journal.decide(claim.name, proof)
        say(f"{claim.name}: {proof.outcome}: {_first_line(proof.seen)}")


def _first_line(text: str) -> str:
    return text.partition("\n")[0]


def _try(trials: Trials, claim: Claim) -> Proof:
    if claim.stage in trials.failed:
        return not_tried(f"{claim.stage} does not stand: {_first_line(trials.failed[claim.stage])}")
    try:
        trials.account.refuse_overtime()
        if claim.stage and claim.stage not in trials.made:
            trials.make(claim.stage)
        trials.say(f"trying {claim.name}: {claim.promise}")
        return claim.prove(trials.account)
    except TimeIsOver as over:
        return not_tried(str(over))
    except (CommandFailed, NotMade, SlipwayError) as error:
        return judged(False, str(error))
    except _refusals() as error:
        return judged(False, f"AWS refused: {error}")
    except Exception as error:  # noqa: BLE001 - a claim that is itself broken must not end the others
        return not_tried(f"the claim itself failed: {type(error).__name__}: {error}")


def _refusals() -> tuple[type[Exception], ...]:
    from botocore.exceptions import BotoCoreError, ClientError

    return (BotoCoreError, ClientError)
