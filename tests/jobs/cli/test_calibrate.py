"""`slipway calibrate --published` takes all rates of a file for estimates, or none."""

from __future__ import annotations

from pathlib import Path

import pytest

import slipway as package
from slipway.jobs.estimate.evidence.nearest import other_rows
from slipway.jobs.estimate.evidence.published_rows import encode_published
from tests.jobs.cli.conftest import estimated
from tests.jobs.conftest import Slipway

HEADINGS = "table,hardware,precision,model,nodes,micro_batch,sequences_per_second\n"
GOOD = "a paper,g5.48xlarge,bf16,bert-large,1,64,300\n"
OWN_MODEL = """\
hardware,model,layers,hidden_size,heads,sequence_length,causal,nodes,micro_batch,sharding,tokens_per_second,own
p5.48xlarge,our-7b,32,4096,32,2048,yes,4,2,fsdp,300000,yes
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "rates.csv"
    path.write_text(HEADINGS + GOOD)
    return path


def test_a_published_rate_is_what_later_estimates_stand_on_and_they_name_it(
    slipway: Slipway, file: Path
) -> None:
    asked = ("bert-large", "--on", "g5.48xlarge", "--nodes", "2", "--set", "micro_batch=32")
    (before,) = estimated(slipway, *asked)
    (learned,) = slipway.json("calibrate", "--published", str(file), "--json")
    assert (learned["after"], learned["word"]) == (300, "measured")
    (after,) = estimated(slipway, *asked)
    assert before["word"] == "predicted"
    assert "nothing was measured" in str(before["basis"])
    assert after["word"] == "calibrated"
    assert "bert-large on 8 devices of g5.48xlarge: a paper" in str(after["basis"])
    assert after["nearness"] == "it differs in tokens of a micro-batch 8192 instead of 4096"
    assert float(str(after["band"])) < float(str(before["band"])) / 2
    said = slipway("estimate", *asked)[2]
    assert "a paper; it differs in tokens of a micro-batch 8192 instead of 4096" in said


def test_what_was_published_of_the_very_configuration_is_told_as_measured(
    slipway: Slipway, file: Path
) -> None:
    file.write_text(
        HEADINGS.replace("micro_batch", "micro_batch,global_batch") + GOOD.replace(",64,", ",64,512,")
    )
    slipway("calibrate", "--published", str(file))
    asked = ("bert-large", "--on", "g5.48xlarge", "--nodes", "1", "--set", "global_batch=512")
    (row,) = estimated(slipway, *asked)
    assert (row["word"], row["sequences_per_second"]) == ("measured", 300)


@pytest.mark.parametrize(
    ("rows", "said"),
    [  # BI-421, BI-422
        (
            GOOD + GOOD.replace("300", "99"),
            "line 3: 99 sequences a second contradicts line 2, which says 300",
        ),
        (GOOD + GOOD.replace("a paper", "b") + GOOD.replace("300", "301"), "line 4: 301 sequences a second"),
        (GOOD.replace("bert-large", "bert\0large"), "column model is 'bert\\x00large'; allowed: any text"),
        (GOOD.replace("a paper", "a\x1b[31mpaper"), "column table is"),
    ],
)
def test_rows_that_contradict_or_forge_are_named_and_nothing_is_stored(
    slipway: Slipway, file: Path, rows: str, said: str
) -> None:
    file.write_text(HEADINGS + rows)
    assert said in slipway.refused("calibrate", "--published", str(file), code=2)
    file.write_text(HEADINGS + GOOD + GOOD)
    assert slipway("calibrate", "--published", str(file))[0] == 0, "the same row twice says nothing new"


def test_a_rate_of_mine_has_a_narrower_range_than_somebody_else_s(slipway: Slipway, file: Path) -> None:
    asked = ("bert-large", "--on", "g5.48xlarge", "--nodes", "2")
    slipway("calibrate", "--published", str(file))
    (theirs,) = estimated(slipway, *asked)
    own = HEADINGS.replace("\n", ",own\n") + GOOD.replace("\n", ",yes\n").replace("a paper", "mine")
    file.write_text(own)
    slipway("calibrate", "--published", str(file))
    (mine,) = estimated(slipway, *asked)
    assert float(str(mine["band"])) < float(str(theirs["band"]))
    assert "mine" in str(mine["basis"])


def test_reading_a_file_again_replaces_its_rows(slipway: Slipway, file: Path, home: Path) -> None:
    slipway("calibrate", "--published", str(file))
    file.write_text(HEADINGS + GOOD.replace(",300", ",200"))
    slipway("calibrate", "--published", str(file))
    stored = (home / "slipway" / "published.csv").read_text().splitlines()
    assert len(stored) == 2
    (row,) = estimated(slipway, "bert-large", "--on", "g5.48xlarge", "--nodes", "1")
    assert float(str(row["sequences_per_second"])) < 260


def test_a_model_that_nobody_knows_is_told_by_its_sizes(slipway: Slipway, tmp_path: Path) -> None:
    path = tmp_path / "own.csv"
    path.write_text(OWN_MODEL)
    slipway.told("calibrate", "--published", str(path))
    sizes = ("layers=32", "hidden=4096", "heads=32", "micro_batch=2", "sharding=fsdp")
    settings = [word for size in sizes for word in ("--set", size)]
    (row,) = estimated(slipway, "decoder", "--on", "p5.48xlarge", "--nodes", "4", *settings)
    assert (row["word"], round(float(str(row["tokens_per_second"])))) == ("measured", 300_000)


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("g5.48xlarg,bf16,bert-large,1,16,300", "column hardware is 'g5.48xlarg'; allowed: types"),
        ("g5.48xlarge,fp8,bert-large,1,16,300", "column precision is 'fp8'; allowed are bf16, fp16"),
        ("g5.48xlarge,bf17,bert-large,1,16,300", "column precision is 'bf17'; allowed: fp16,"),
        ("g5.48xlarge,bf16,bert-lorge,1,16,300", "column model is 'bert-lorge'; allowed are bert-"),
        ("g5.48xlarge,bf16,bert-large,1,16,-5", "column sequences_per_second is '-5'; allowed: a"),
        ("g5.48xlarge,bf16,bert-large,1,16,NaN", "column sequences_per_second is 'NaN'; allowed: a"),
        ("g5.48xlarge,bf16,bert-large,1,16,inf", "column sequences_per_second is 'inf'; allowed: a"),
        ("g5.48xlarge,bf16,bert-large,1,16,", "column sequences_per_second is ''; allowed: a number"),
        ("g5.48xlarge,bf16,bert-large,0,16,300", "column nodes is '0'; allowed: a whole number"),
        ("g5.48xlarge,bf16,bert-large,1,1.5,300", "column micro_batch is '1.5'; allowed: a whole"),
        ("g5.48xlarge,bf16,bert-large,1,16,3,1", "there are more values than columns"),
        ("g5.48xlarge,bf16,bert-large,1,16,9e5", "900000 sequences a second are more than these devices"),
    ],
)
def test_a_row_that_cannot_be_is_named_and_nothing_of_the_file_is_stored(
    slipway: Slipway, file: Path, home: Path, row: str, said: str
) -> None:
    file.write_text(f"{HEADINGS}{GOOD}a paper,{row}\n")
    err = slipway.refused("calibrate", "--published", str(file), code=2)
    assert f"error: {file}, line 3: " in err
    assert said in err
    assert not (home / "slipway").exists()


def test_every_bad_row_is_named_at_once(slipway: Slipway, file: Path) -> None:
    file.write_text(f"{HEADINGS}{GOOD.replace('300', '-1')}{GOOD}{GOOD.replace('g5', 'g55')}")
    err = slipway("calibrate", "--published", str(file))[2]
    assert [line.split(": ")[1] for line in err.splitlines()] == [f"{file}, line {n}" for n in (2, 4)]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "lacks the column hardware, model, nodes, micro_batch"),
        (HEADINGS, "has no row"),
        (HEADINGS.replace("micro_batch", "micro_bacth") + GOOD, "there is no column 'micro_bacth'"),
        (HEADINGS.replace("precision", "model") + GOOD, "names a column twice"),
        (HEADINGS + 'a "paper"x",g5.48xlarge\n"', "line"),
    ],
)
def test_a_file_that_is_no_table_of_rates_is_refused(
    slipway: Slipway, file: Path, home: Path, text: str, said: str
) -> None:
    file.write_text(text)
    assert said in slipway.refused("calibrate", "--published", str(file), code=2)
    assert not (home / "slipway").exists()


def test_a_rate_at_the_limit_of_the_hardware_is_not_refused(slipway: Slipway, file: Path) -> None:
    """Published rates of BERT-Large in fp32 on V100 exceed the sheet's peak, so a quarter more is allowed."""
    file.write_text(f"{HEADINGS}{GOOD.replace(',300', ',900000')}")
    allowed = slipway("calibrate", "--published", str(file))[2].split("allowed are ")[1].split(")")[0]
    file.write_text(f"{HEADINGS}{GOOD.replace(',300', f',{float(allowed) * 0.999}')}")
    err = slipway.told("calibrate", "--published", str(file), "--dry-run")
    assert "counts for its own size alone" in err


def test_a_dry_run_shows_and_stores_nothing(slipway: Slipway, file: Path, home: Path) -> None:
    code, out, err = slipway("calibrate", "--published", str(file), "--dry-run")
    assert code == 0
    assert "300.00" in out
    assert "nothing was changed" in err
    assert not (home / "slipway").exists()


def test_a_run_and_a_file_at_once_are_refused(slipway: Slipway, file: Path) -> None:
    for arguments in ((), ("a-run", "--published", str(file)), ("--published", str(file), "--on", "dl1")):
        assert "--published" in slipway.told("calibrate", *arguments, code=2)


def test_the_rows_that_ship_can_be_read_as_a_user_s_own(slipway: Slipway, file: Path) -> None:
    file.write_text(encode_published(other_rows()[::10]))
    slipway.told("calibrate", "--published", str(file), "--dry-run")


def test_python_learns_the_same_and_refuses_the_same(file: Path) -> None:
    (learned,) = package.calibrate(file)
    assert (learned.after, learned.is_followed) == (300, True)
    assert package.estimate("bert-large", on="g5.48xlarge", nodes=2)[0].word == "calibrated"
    file.write_text(HEADINGS + GOOD.replace("300", "fast"))
    with pytest.raises(package.SlipwayError, match="line 2: column sequences_per_second is 'fast'"):
        package.calibrate(file)
