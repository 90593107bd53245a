"""Try claim after claim, and keep each result in a file, from which the next run goes on."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from scripts.real_account.account import Account, CommandFailed, Evidence, TimeIsOver
from scripts.real_account.claims import Claim, ClaimOutcome, Proof, judged, not_tried
from scripts.real_account.clusters import BY_NAME, existing_stacks
from slipway.jobs.words.errors import SlipwayError

Say = Callable[[str], None]


@dataclass(slots=True, kw_only=True)
class Journal:
    """Holds the stages that may be deployed, and the claims that were decided."""

    path: Path
    account: str
    region: str
    begun: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)  # stacks from before the run, which must not destroy them
    proofs: dict[str, Proof] = field(default_factory=dict)

    def begin(self, stage: str, standing_before: list[str]) -> None:
        """Note a stage before anything of it is made."""
        if stage not in self.begun:
            self.begun.append(stage)
            self.kept += standing_before
        self.save()

    def end(self, stage: str) -> None:
        self.begun.remove(stage)
        self.save()

    def decide(self, claim: str, proof: Proof) -> None:
        self.proofs[claim] = proof
        self.save()

    def save(self) -> None:
        """Write the journal atomically."""
        new = self.path.with_suffix(".new")
        new.write_text(json.dumps(asdict(self), default=str, indent=2), encoding="utf-8")
        new.replace(self.path)


def open_journal(path: Path, account: str, region: str) -> Journal:
    """Return the journal of an earlier run of the same account and region, or a new one."""
    if not path.is_file():
        return Journal(path=path, account=account, region=region)
    record = json.loads(path.read_text(encoding="utf-8"))
    if (record["account"], record["region"]) != (account, region):
        raise SystemExit(
            f"error: {path} is of {record['account']} in {record['region']}; name another by --state"
        )
    proofs = {name: _proof(each) for name, each in record.pop("proofs").items()}
    return Journal(**{**record, "path": path, "proofs": proofs})


def _proof(record: dict[str, object]) -> Proof:
    evidence = record["evidence"]
    assert isinstance(evidence, list), "the journal is ours"
    return Proof(
        outcome=ClaimOutcome(str(record["outcome"])),
        seen=str(record["seen"]),
        evidence=tuple(Evidence(**each) for each in evidence),
    )


@dataclass(slots=True, kw_only=True)
class Trials:
    """Holds the stages that this run has made, and why others could not be made."""

    account: Account
    journal: Journal
    say: Say
    made: set[str] = field(default_factory=set)
    failed: dict[str, str] = field(default_factory=dict)

    def make(self, name: str) -> None:
        """Deploy a stage, again if an earlier run began it, which changes nothing that is complete."""
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
    """Reports that a stage could not be made, which refutes the first claim that needs it."""


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
    except Exception as error:  # noqa: BLE001 - an error in one claim must not end the others
        return not_tried(f"the claim itself failed: {type(error).__name__}: {error}")


def _refusals() -> tuple[type[Exception], ...]:
    from botocore.exceptions import BotoCoreError, ClientError

    return (BotoCoreError, ClientError)
