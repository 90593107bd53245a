"""The report: claim by claim what was confirmed or refuted, with the requests by which to check it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from scripts.real_account.all_claims import CLAIMS, NOTHING_LEFT
from scripts.real_account.claims import Proof
from scripts.real_account.evidence import now

_MOST_EVIDENCE = 12  # requests of a claim, the last ones


def write_report(
    path: Path, proofs: Mapping[str, Proof], *, region: str, is_yard: bool, secrets: Sequence[str]
) -> None:
    """Write the report; `secrets` (account number, address) are blotted out, for it is to be published."""
    text = "\n".join(_lines(proofs, region, is_yard=is_yard)) + "\n"
    for secret in filter(None, secrets):
        text = text.replace(secret, "…")
    path.write_text(text, encoding="utf-8")


def _lines(proofs: Mapping[str, Proof], region: str, *, is_yard: bool) -> Iterator[str]:
    yield "# Tried in the yard" if is_yard else "# Confirmed on AWS"
    yield ""
    where = f"a yard, so it proves nothing about AWS ({region})" if is_yard else f"AWS, {region}"
    yield f"Written by `scripts/acceptance` on {now()}, against {where}."
    yield ""
    yield "| Claim | Outcome | Seen |"
    yield "|---|---|---|"
    for name, promise in promises():
        proof = proofs.get(name)
        outcome, seen = (proof.outcome, proof.seen) if proof else ("not tried", "it was not asked for")
        yield f"| {promise} | {outcome} | {_cell(seen)} |"
    yield from _evidence(proofs)


def promises() -> tuple[tuple[str, str], ...]:
    own = tuple((claim.name, claim.promise) for claim in CLAIMS)
    return (*own, (NOTHING_LEFT, "everything that was made is gone afterwards"))


def _evidence(proofs: Mapping[str, Proof]) -> Iterator[str]:
    for name, promise in promises():
        if name in proofs and proofs[name].evidence:
            yield from ("", f"## {promise}", "", "| Request | Id | At (UTC) |", "|---|---|---|")
            for each in proofs[name].evidence[-_MOST_EVIDENCE:]:
                yield f"| `{_cell(each.what)}` | {each.request_id} | {each.at} |"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
