"""Which test holds which row of the project's list of bad inputs (BI-…): jobs, submitting, data, checkpoints.

A row whose test names it is not repeated here. A row that nothing holds stands in NOT_HELD with the reason.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping

import pytest

from tests.architecture.tracked import paths, syntax, text

HELD: Mapping[str, tuple[str, str]] = {
    # Submitting, as deployed and as sent.
    "BI-023": (
        "tests/infra/verify/test_rules.py",
        "test_a_rule_finds_what_it_is_for_and_says_where_and_what",
    ),
    "BI-037": ("tests/yard/services/batch/api/test_limits.py", "test_what_batch_refuses_is_refused"),
    "BI-038": ("tests/yard/services/batch/api/test_limits.py", "test_what_batch_refuses_is_refused"),
    "BI-040": (
        "tests/infra/verify/test_rules.py",
        "test_a_rule_finds_what_it_is_for_and_says_where_and_what",
    ),
    "BI-041": ("tests/infra/stacks/test_batch.py", "test_memory_stays_under_what_was_measured_to_register"),
    "BI-046": ("tests/infra/stacks/test_batch.py", "test_only_exit_85_and_a_lost_machine_are_tried_again"),
    "BI-053": ("tests/yard/services/batch/api/test_limits.py", "test_what_batch_refuses_is_refused"),
    "BI-055": ("tests/yard/services/batch/api/test_limits.py", "test_what_batch_refuses_is_refused"),
    "BI-101": (
        "tests/infra/patterns/nodes/test_efa.py",
        "test_a_container_is_given_the_device_of_every_efa_interface",
    ),
    "BI-146": (
        "tests/jobs/core/test_job.py",
        "test_shell_and_foreign_characters_in_a_value_are_what_they_are",
    ),
    "BI-151": ("tests/jobs/submit/test_preparation.py", "test_the_digest_of_the_image_is_recorded"),
    "BI-154": (
        "tests/jobs/commands/test_output.py",
        "test_foreign_text_cannot_forge_a_line_or_steer_the_terminal",
    ),
    "BI-166": (
        "tests/jobs/platforms/test_sending.py",
        "test_only_what_may_have_been_carried_out_is_uncertain",
    ),
    "BI-167": (
        "tests/jobs/clusters/preflight/test_checks.py",
        "test_credentials_of_another_account_than_declared_are_refused",
    ),
    "BI-169": ("tests/jobs/commands/test_failures.py", "test_what_aws_refuses_is_told_with_what_to_do"),
    "BI-170": ("tests/jobs/clusters/preflight/test_checks.py", "test_what_fails_says_why_and_what_to_do"),
    "BI-173": (
        "tests/jobs/submit/test_submission.py",
        "test_an_interrupted_loop_of_jobs_is_finished_by_running_it_again",
    ),
    "BI-175": ("tests/jobs/submit/test_journal.py", "test_the_second_of_two_waits_for_the_first"),
    "BI-176": ("tests/jobs/submit/test_submission.py", "test_a_lost_answer_makes_no_second_job"),
    "BI-181": ("tests/jobs/runs/test_find.py", "test_a_page_that_comes_again_and_again_ends_in_an_error"),
    "BI-182": (
        "tests/jobs/commands/jobs/test_job_commands.py",
        "test_status_lists_what_has_not_ended_and_shows_one_in_full",
    ),
    "BI-184": ("tests/jobs/commands/test_streams.py", "test_a_full_disk_behind_standard_output_is_an_error"),
    "BI-185": ("tests/jobs/submit/test_preparation.py", "test_deciding_changes_nothing"),
    "BI-186": ("tests/jobs/commands/test_failures.py", "test_what_aws_refuses_is_told_with_what_to_do"),
    # Training.
    "BI-062": (
        "tests/containers/recipes/bert_pretrain/test_config.py",
        "test_a_global_batch_that_cannot_be_shared_names_the_nearest_that_can",
    ),
    # Data.
    "BI-112": ("tests/containers/data/test_bad_input.py", "test_text_that_cannot_be_read_is_refused"),
    "BI-113": (
        "tests/containers/data/test_bad_input.py",
        "test_what_is_no_plain_file_in_a_folder_is_refused",
    ),
    "BI-116": (
        "tests/containers/data/test_bad_input.py",
        "test_names_that_lead_out_of_their_root_are_refused",
    ),
    "BI-119": ("tests/containers/data/rows/test_loader.py", "test_more_ranks_than_shards_all_have_data"),
    "BI-121": (
        "tests/containers/data/rows/test_loader.py",
        "test_a_shard_that_changed_is_named_when_it_is_read",
    ),
    "BI-122": ("tests/containers/data/test_bad_input.py", "test_a_manifest_changed_by_hand_is_refused"),
    "BI-124": ("tests/containers/data/test_bad_input.py", "test_text_that_cannot_be_read_is_refused"),
}

NOT_HELD: Mapping[str, str] = {
    "BI-066": "no recipe splits a vocabulary over devices, and the estimate counts parameters as published",
    "BI-174": "the CDK deploys, and Slipway has no deploy of its own that could be interrupted",
    "BI-056": "a loop of slipway submit waits for each answer, which is far below 50 a second; throttling is "
    "waited out and the journal resumes (test_submission.py); nothing submits many at once yet",
    "BI-058": "no recipe has tensor parallelism yet",
    "BI-065": "no recipe has sequence or context parallelism yet",
    "BI-125": "nothing reads JSONL yet",
}


def test_a_row_is_either_held_or_not() -> None:
    assert not HELD.keys() & NOT_HELD.keys()
    assert all(re.fullmatch(r"BI-\d{3}", row) for row in (*HELD, *NOT_HELD))


@pytest.mark.parametrize("row", HELD)
def test_the_test_that_holds_a_row_is_there(row: str) -> None:
    path, name = HELD[row]
    assert path in paths(".py")
    names = {node.name for node in ast.walk(syntax(path)) if isinstance(node, ast.FunctionDef)}
    assert name in names


def test_a_row_that_nothing_held_is_not_named_by_a_test_by_now() -> None:
    here = "tests/architecture/test_bad_inputs_held.py"
    named = {row for path in paths(".py") if path.startswith("tests/") and path != here for row in rows(path)}
    assert not named & NOT_HELD.keys()


def rows(path: str) -> list[str]:
    return re.findall(r"BI-\d{3}", text(path))
