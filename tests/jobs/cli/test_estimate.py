"""estimate, compare and prices need no AWS and no yard, and show no price without its day."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from slipway.jobs.estimate.evidence import published, tables
from slipway.jobs.estimate.evidence.bands import errors_by_word
from slipway.jobs.estimate.evidence.measurements import encode_measurements, our_measurements
from slipway.jobs.estimate.evidence.trials import trials
from tests.jobs.cli.conftest import estimated, rows_of
from tests.jobs.conftest import Slipway


def test_a_table_has_what_there_is_to_know_before_paying(slipway: Slipway) -> None:
    code, out, err = slipway("estimate", "bert-large", "--on", "dl1", "--nodes", "1,2,4,8")
    assert code == 0
    lines = out.splitlines()
    assert lines[0] == "bert-large on dl1, prices on-demand in us-east-1 of 2026-07-20"
    headings = "nodes devices seq/s efficiency tokens/USD memory time cost within"
    assert [heading for heading in headings.split() if heading not in lines[1]] == []
    rates = ["1,379.76", "2,705.57", "5,291.58", "9,977.54"]
    assert [line.split()[:3] for line in lines[2:]] == [
        [f"{nodes}", f"{8 * nodes}", rate] for nodes, rate in zip((1, 2, 4, 8), rates, strict=True)
    ]
    assert all("measured  ± 14 %" in line for line in lines[2:])
    assert "measured: nobody has published the same configuration twice on gaudi" in err
    assert "90.4 %" in lines[5]
    assert "7,038 steps of 65,536" in err


def test_a_declared_cluster_costs_more_than_its_nodes_and_names_what_is_not_counted(
    slipway: Slipway,
) -> None:
    (alone,) = estimated(slipway, "bert-large", "--on", "dl1.24xlarge", "--nodes", "2")
    (cluster,) = estimated(slipway, "bert-large", "--on", "dl1", "--nodes", "2")
    endpoints_and_volumes = 11 * 0.01 + 2 * 200 * 0.08 / 730
    assert cluster["usd_per_hour"] - alone["usd_per_hour"] == pytest.approx(endpoints_and_volumes)
    assert "efs" in str(cluster["unpriced"])
    assert "only nodes are priced" in slipway("estimate", "mrpc", "--on", "c6i.16xlarge")[2]


def test_an_unknown_price_reads_as_unknown(slipway: Slipway) -> None:
    code, out, err = slipway("estimate", "bert-large", "--on", "p5e.48xlarge", "--nodes", "1")
    assert code == 0
    assert "no price known" in out.splitlines()[0]
    assert out.splitlines()[2].count("unknown") == 3  # tokens a dollar, price, cost
    assert "no price of p5e.48xlarge is known" in err


def test_the_article_s_tokens_per_dollar_come_out_to_the_unit(slipway: Slipway) -> None:
    on = ("--on", "trn1.32xlarge", "--term", "3-year", "--nodes")
    rows = estimated(slipway, "gpt-neox-20b", *on, "4,8,16,32,64")
    tokens = [3_302_704, 3_254_134, 3_296_632, 3_263_241, 3_217_708]
    assert [row["tokens_per_dollar"] for row in rows] == tokens
    settings = ("--set", "size=neox-20b", "--set", "global_batch=16384")
    (row,) = estimated(slipway, "gpt_neox", *on, "4", *settings)
    assert (row["tokens_per_dollar"], row["word"], row["steps"]) == (3_302_704, "measured", 157)


def test_what_does_not_work_of_the_usual_sizes_is_left_out_and_told(slipway: Slipway) -> None:
    code, out, err = slipway("estimate", "gpt-neox-20b", "--on", "trn1.32xlarge")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()[2:]] == ["2", "4", "8"]
    assert "left out: gpt-neox-20b does not fit 1 × trn1.32xlarge" in err


def test_a_recipe_is_estimated_as_its_settings_say(slipway: Slipway) -> None:
    words = "bert_pretrain --on dl1 --nodes 8 --set size=1.5b --set zero=1"
    asked = words.split()
    (row,) = estimated(slipway, *asked)
    assert (row["sequences_per_second"], row["word"]) == (1883.63, "measured")
    (steps,) = estimated(slipway, *asked, "--set", "steps=69")
    assert steps["hours"] * 3600 - 10 == pytest.approx(69 * 24_576 / 1883.63)


def test_fine_tuning_a_glue_task_is_the_article_s_minutes_and_each_row_has_its_price_s_region_and_day(
    slipway: Slipway,
) -> None:
    model = ("--set", "model=models/bert-base-cased")
    rows = estimated(slipway, "glue_finetune", "--on", "c6i", "--nodes", "1,2,4", *model)
    assert [round(row["hours"] * 3600) for row in rows] == [466, 279, 156]
    assert {(row["price"]["region"], row["price"]["date"]) for row in rows} == {("us-east-1", "2026-07-20")}


REFUSED = """
bert-larg --on dl1 | neither a recipe nor a model | mean bert-large?
bert_pretrai --on dl1 | neither a recipe nor a model | did you mean bert_pretrain?
bert-large --on dl2 | neither a declared cluster nor an | mean dl1?
bert-large --on p4d.24xlarg | neither a declared | did you mean p4d.24xlarge or
prepare_bert --on dl1 | trains no model | bert_pretrain
gpt-neox-20b --on dl1 --set tensor=7 | does not divide 64 heads | is 8
bert-large --on dl1 --set pipeline=32 | more than 24 layers | at most 24
bert-large --on dl1 --set micro_batch=3 | not a multiple of the 24 | 65520 or 65544
gpt-neox-20b --on trn1.32xlarge --nodes 1 | does not fit 1 × trn1.32xlarge | --set checkpointing=full
bert-large --on dl1 --region eu-west-3 | is not offered in eu-west-3; it is in us | another type
bert-large --on dl1 --term 1-year | no 1-year price | refresh-prices
bert-large --on dl1 --set micro_bach=4 | no such setting | did you mean micro_batch?
bert-large --on dl1 --set micro_batch=four | must be a whole number | 16
bert-large --on dl1 --set micro_batch=-4 | must be 1 or more | 16
bert-large --on dl1 --set micro_batch=99999999999 | from 1 to 10,000,000 |
bert-large --on dl1 --set sharding=zero9 | allowed are none, zero1 |
bert-large --on dl1 --set tensor=3 | does not divide 16 heads | nearest that does is 2
bert-large --on dl1 --set global_batch=1000 | not a multiple of the 512 | 512 or 1024
bert-large --on dl1 --set offload=maybe | allowed are true, false | offload=true
bert-large --on dl1 --nodes 0 | 0 nodes cannot be | --nodes 1,2,4,8
bert-large --on dl1 --nodes -4 | -4 nodes cannot be | --nodes 1,2,4,8
bert-large --on dl1 --nodes 99999999 | 1 to 10,000 | --nodes 1,2,4,8
bert-large --on dl1 --nodes 64 | more than the 16 that cluster dl1 | at most 16
bert-large --on dl1 --nodes two | 'two' is not a number of nodes |
bert-large --on dl1 --set micro_batch | has no '='; write --set key=value |
bert_pretrain --on dl1 --set size=huge | size is 'huge' |
bert_pretrain --on trn1.32xlarge | cannot train on neuron | slipway compare
bert-large --on hpc6a.48xlarge | peak of hpc6a.48xlarge is not known | --all-types
glue_finetune --on c6i --set model=mine | nobody has counted | bert-base-cased
gpt_neox --on trn1.32xlarge | nobody has counted the model of size=tiny |
bert-large | a recipe or --on is missing |
bert-large --on p4d.24xlarge --region eu-west-9 | AWS has no region 'eu-west-9' |
bert-large --on p4d.24xlarge --region eu-west-3 | is not offered in eu-west-3; it is in ap-northeast-1 |
bert-large --on p4d.24xlarge --region sa-east-1 | no on-demand price of p4d.24xlarge in sa-east-1 is known |
bert-large --on m5.large --term spot | no spot price of m5.large is known; known are on-demand in us-east-1 |
bert-large --on dl1.24xlarge --term capacity-block | no capacity-block price of dl1.24xlarge is known |
bert-large --on p4d.24xlarge --term spot --region us-gov-east-1 | no spot price of p4d.24xlarge in us-gov |
bert-large --on c6i --devices 8 | c6i.16xlarge has no accelerators |
bert-large --on dl1 --devices 0 | --devices 0 cannot be; allowed are 1 to 1,024 |
bert-large --on dl1 --network nan | --network nan cannot be |
bert-large --on dl1 --network -1 | --network -1 cannot be |
bert_pretrain --on dl1 --nodes 7,11 --set global_batch=23040 | 23040 is not a multiple of the 896 |
--check --on dl1 | --check takes no --on |
--check bert-large | --check takes no recipe or model |
--check --nodes 2 | --check takes no --nodes |
--check --set size=large | --check takes no --set |
--check --term 3-year | --check takes no --term |
--check --region eu-west-1 | --check takes no --region |
--idle dl1 --on dl1 | --idle takes no --on |
--idle dl1 --check | --check and --idle are two questions |
"""


@pytest.mark.parametrize(("words", "error", "hint"), rows_of(REFUSED))
def test_what_cannot_be_is_one_error_with_the_nearest_that_works(
    slipway: Slipway, words: str, error: str, hint: str
) -> None:
    lines = slipway.refused("estimate", *words.split(), code=2).splitlines()
    assert lines[0].startswith("error: ")
    assert error in lines[0]
    assert hint in "".join(lines[1:])
    assert len(lines) <= 2


def test_a_tensor_that_crosses_nodes_is_warned_of_with_what_it_costs(slipway: Slipway) -> None:
    """BI-061."""
    arguments = ("pythia-6.9b", "--on", "p4d.24xlarge", "--nodes", "2", "--set", "tensor=16")
    err = slipway.told("estimate", *arguments)
    assert "warning: tensor degree 16 crosses nodes of 8 devices: on 2 nodes tensor=8 trains 2.7 times" in err


def test_stages_of_unequal_layers_wait_for_the_fullest_and_too_many_are_refused(slipway: Slipway) -> None:
    """BI-059."""
    on = ("--on", "p4d.24xlarge", "--set", "global_batch=3200", "--set", "micro_batch=1")
    err = slipway.told("estimate", "bert-large", *on, "--nodes", "5", "--set", "pipeline=10")
    assert "24 layers over 10 stages are uneven" in err
    assert "a step 25% longer" in err
    err = slipway.told("estimate", "bert-large", *on, "--nodes", "25", "--set", "pipeline=25", code=2)
    assert "25 pipeline stages of 1 chunk(s) need more than 24 layers" in err


def test_check_prints_every_table_and_ends_with_0(slipway: Slipway) -> None:
    code, out, err = slipway("estimate", "--check")
    assert code == 0
    assert all(name in out for name in tables.TABLES)
    assert "OUT" not in out
    assert "GPT-J 6B" in err
    assert "no padded length" in err
    assert "calibrated, 607 rows: off by " in err
    assert "in the median, held 91.1% of rows" in err


def test_other_people_s_tables_are_met_as_nearly_as_the_page_says() -> None:
    """Estimate each row without its own table, or with one row of it; users rely on these limits."""
    found = list(trials())
    sweep = [each for each in found if each.table.startswith("Aleph-Alpha")]  # one model, cut in all ways
    others = {each.word: each for each in errors_by_word([each for each in found if each not in sweep])}
    known = others["calibrated"]
    assert known.mean <= 0.05
    assert known.median <= 0.03
    assert known.ninth <= 0.13
    assert others["predicted"].mean <= 0.145
    assert all(each.mean <= 0.11 for each in errors_by_word(sweep))
    for each in errors_by_word(found):
        assert each.word == "measured" or each.held >= 0.9 * each.rows


def test_check_fails_when_a_row_falls_out(slipway: Slipway, monkeypatch: pytest.MonkeyPatch) -> None:
    table = tables.TABLES["dl1/bert-large"]
    last = table.rows[-1]
    assert last.sequences_per_second is not None
    worse = replace(last, sequences_per_second=last.sequences_per_second * 0.9)
    changed = {**tables.TABLES, table.name: replace(table, rows=(*table.rows[:-1], worse))}
    monkeypatch.setattr(published, "TABLES", changed)
    code, out, _ = slipway("estimate", "--check")
    assert code == 1
    assert [line.split()[:2] for line in out.splitlines() if line.endswith("OUT")] == [
        ["dl1/bert-large", "8"]
    ] * 2


def test_my_own_measurement_takes_the_place_of_the_published_one(slipway: Slipway, tmp_path: Path) -> None:
    mine = replace(our_measurements()[0], utilisation=0.3, source="mine", sequences_per_second=1100.0)
    (tmp_path / "slipway").mkdir()
    (tmp_path / "slipway" / "calibration.csv").write_text(encode_measurements([mine]))
    (row,) = estimated(slipway, "bert-large", "--on", "dl1", "--nodes", "8")
    assert (row["word"], "mine" in str(row["basis"])) == ("calibrated", True)
    assert float(str(row["sequences_per_second"])) < 9000


def test_a_calibration_beyond_the_peak_is_refused_with_its_line(
    slipway: Slipway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "mine.csv"
    row = our_measurements()[0]
    text = encode_measurements([row])
    file.write_text(text.replace(f"{row.utilisation:.10g}", "1.3575936712"))
    monkeypatch.setenv("SLIPWAY_CALIBRATION", str(file))
    err = slipway.refused("estimate", "bert-large", "--on", "dl1", code=2)
    assert "mine.csv, line 2: utilisation is 1.3575936712; it must be more than 0 and at most 1.25" in err


def test_prices_say_where_they_are_kept_and_mine_go_first(slipway: Slipway, tmp_path: Path) -> None:
    (tmp_path / "slipway").mkdir()
    (tmp_path / "slipway" / "prices.csv").write_text(
        "instance_type,region,term,usd_per_hour,date,source\ndl1.24xlarge,us-east-1,on-demand,9,2026-08-01,mine\n"
    )
    rows = slipway.json("instance", "prices", "--json")
    mine = next(row for row in rows if row["instance_type"] == "dl1.24xlarge")
    assert (mine["usd_per_hour"], mine["written"]) == (9, str(tmp_path / "slipway" / "prices.csv"))
    assert all(row["date"] and row["source"] for row in rows)
    (row,) = estimated(slipway, "bert-large", "--on", "dl1.24xlarge", "--nodes", "1")
    assert row["usd_per_hour"] == 9


def test_fees_without_a_source_are_listed_as_unknown(slipway: Slipway) -> None:
    fees = {fee["item"]: fee["usd"] for fee in slipway.json("instance", "prices", "--fees", "--json")}
    assert fees["nat-gateway"] == 0.045
    assert fees["pcs-controller-small"] is None


def test_why_parts_a_step_and_a_device_s_memory_until_nothing_is_left(slipway: Slipway) -> None:
    words = "gpt-neox-20b --on p4d.24xlarge --nodes 16 --set tensor=8 --set pipeline=4"
    asked = words.split()
    step, held = slipway.printed("estimate", *asked, "--why").split("of a device's memory")
    for words in ("products of matrices", "sums of activations", "stages send activations", "slowest node"):
        assert re.search(rf"{words}.* %", step)
    assert "free" in held
    assert "█" in step
    (row,) = estimated(slipway, *asked)
    parted = slipway.json("estimate", *asked, "--why", "--json")
    seconds = sum(line["seconds"] for line in parted["step"])
    assert seconds == pytest.approx(row["sequences_per_step"] / row["predicted_sequences_per_second"])
    assert sum(line["gib"] for line in parted["memory"]) == pytest.approx(row["usable_gib"])
    assert slipway("estimate", *asked, "--why", "--bill")[0] == 2


PROGRAMS = "argparse|concurrent.futures|importlib.resources|socket|statistics|subprocess"


@pytest.mark.parametrize(
    ("commands", "needless"),
    [
        (["estimate bert-large --on dl1"], rf"({PROGRAMS})$"),
        (["estimate bert-large --on p4d.24xlarge"], r"slipway\.infra"),
        (["estimate bert_pretrain --on dl1", "compare bert-large"], "(boto3|botocore|aws_cdk|vl_convert)$"),
    ],
    ids=["nothing that starts or calls a program", "no declaration for a type", "no library of AWS"],
)
def test_an_estimate_loads_only_what_it_needs(commands: list[str], needless: str) -> None:
    """It takes no longer than importing boto3: modules that only some recipes need are not loaded for all."""
    code = (
        "import sys; from slipway.jobs.cli.cli import run;"
        f"[run(words.split()) for words in {commands}]; print(*sys.modules)"
    )
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert not [name for name in loaded.splitlines()[-1].split() if re.match(needless, name)]
