"""What a run began and what it found, kept in a file at each step: the next run goes on from there."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

from scripts.real_account.claims import ClaimOutcome, Proof
from scripts.real_account.evidence import Evidence


@dataclass(slots=True, kw_only=True)
class Journal:
    """Holds stages that may stand and claims that were decided."""

    path: Path
    account: str
    region: str
    begun: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)  # stacks that stood before us, and are not ours to destroy
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
        """Write all of it, or nothing."""
        new = self.path.with_suffix(".new")
        new.write_text(json.dumps(asdict(self), default=str, indent=2), encoding="utf-8")
        new.replace(self.path)


def open_journal(path: Path, account: str, region: str) -> Journal:
    """Go on with an earlier run of the same account and region, or begin."""
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
