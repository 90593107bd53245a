"""The cluster of docs/sft.md, as the page declares it: a tiny Llama loses a node of AWS Batch and resumes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from slipway.jobs.words.installation import DECLARATIONS
from tests.end_to_end.conftest import Shell
from tests.end_to_end.own_project import begin_project
from tests.end_to_end.tuned_models import TUNING, check_resumed, submit_tuning
from tests.packages import require
from tests.test_docs import page

require("trl", reason="the extra 'sft' is not installed")
# tests/containers/recipes/sft resumes one each day
pytestmark = [pytest.mark.cdk, pytest.mark.slow, pytest.mark.long]

NAME = "tuning"
DECLARED = re.compile(r"^```python\n(.*?^CLUSTERS = .*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def project(shell: Shell, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    project = begin_project(shell, tmp_path_factory.mktemp(NAME) / "mine")
    (text,) = DECLARED.findall(page("docs/sft.md"))
    disposable = text.replace("max_nodes=2,", "max_nodes=2,\n        keep_data=False,")
    (project.folder / DECLARATIONS).write_text(f"{disposable}\nMACHINE_IMAGES = ()\n", encoding="utf-8")
    project.must("cdk", "deploy", NAME, "--require-approval", "never", "--concurrency", "4")
    project.must("slipway", "image", "build", "gpu")
    yield project
    project.must("slipway", "cluster", "empty", NAME, "--yes")
    project.must("cdk", "destroy", f"{NAME}*", "--force")


def test_a_tuned_llama_loses_a_node_and_resumes_with_the_same_losses(project: Shell, tmp_path: Path) -> None:
    submit_tuning(project, NAME, "llama", tmp_path)
    project.follow_until(TUNING, "saved step 10")
    project.must("slipway", "yard", "kill-node", TUNING, "1")
    check_resumed(project.must("slipway", "logs", TUNING, "--follow"))
    run = project.data("slipway", "status", TUNING, "--json")
    assert (run["state"], len(run["attempts"])) == ("succeeded", 2)
