"""Pages that answer a reader's question are true: evidence in peers, real messages, every renamed command."""

from __future__ import annotations

import re
from collections import Counter

from slipway.jobs.cli.cli import RENAMED
from tests.architecture.tracked import ROOT, paths
from tests.test_docs import LINK, page

ANSWERS = ("yes", "partly", "no")
FEATURES = 25
ROW = re.compile(r"^\| ([0-9]+) \| (?:[^|]+\| ){2}([a-z]+)[^|]*\| ([^|]+) \|$", re.MULTILINE)
MESSAGE = re.compile(r"^\| `([^`]+)` \|", re.MULTILINE)
SAID_BY = ("containers/", "infra/", "jobs/")


def test_each_feature_of_peers_has_an_answer_and_its_evidence_and_the_sum_is_theirs() -> None:
    text = page("docs/peers.md")
    rows = ROW.findall(text)
    assert [int(number) for number, _, _ in rows] == list(range(1, FEATURES + 1))
    counted = Counter(answer for _, answer, _ in rows)
    assert set(counted) <= set(ANSWERS)
    assert f"Sum: {', '.join(f'{counted[answer]} {answer}' for answer in ANSWERS)}." in text
    # test_docs.py checks that the files and links are there.
    assert all(LINK.search(evidence) or "`tests/" in evidence for _, _, evidence in rows)


def test_every_message_of_troubleshooting_is_one_that_the_code_says() -> None:
    said = "\n".join(
        (ROOT / path).read_text(encoding="utf-8") for path in paths(".py") if path.startswith(SAID_BY)
    )
    messages = MESSAGE.findall(page("docs/troubleshooting.md"))
    assert len(messages) > 10
    assert [text for text in messages for part in text.split("…") if part.strip() not in said] == []


def test_the_page_of_upgrades_has_every_renamed_command() -> None:
    rows = re.findall(r"^\| (`.+`) \| `([^`]+)` \|$", page("docs/upgrade.md"), re.MULTILINE)
    told = {old: new for names, new in rows for old in re.findall(r"`([^`]+)`", names)}
    assert told == dict(RENAMED)
