"""The CPU image, really built and run by buildah. A Debian made by debootstrap stands in for the registry's.

The machine's own pip fetches the packages, so that proxies and mirrors are its affair.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator

import pytest

from tests.containers.images.builder import CONTAINERS, Builder, Image, reason_not_to_build

pytestmark = [
    pytest.mark.slow,
    pytest.mark.long,
]  # minutes: a Debian, 200 MB of wheels, and the image of them

TRAIN = """
set -e
mkdir /tmp/job
cd /tmp/job
python -m slipway.containers.data.samples --output corpus.txt --megabytes 0.2
python -m slipway.containers.data.rows.train_vocabulary --input corpus.txt --output vocab.txt --entries 800
python -m slipway.containers.data.rows.prepare_bert --input corpus.txt --output data/phase1 \
    --vocabulary vocab.txt --phase 1 --duplicates 1 --seed 7 --workers 1
export SLIPWAY_JOB=try SLIPWAY_RUN=try SLIPWAY_PROCESSES_PER_NODE=2
export SLIPWAY_DATA=/tmp/job/data SLIPWAY_CHECKPOINTS=/tmp/job/checkpoints SLIPWAY_LOGS=/tmp/job/logs
python -m slipway.containers.runtime.launch --module slipway.containers.recipes.bert_pretrain.train -- \
    --set size=tiny --set zero=1 --set precision=fp32 --set steps=2 --set micro_batch=4 --set global_batch=8 \
    --set checkpoint_every=2
echo "steps: $(wc -l < logs/steps.jsonl)"
echo "compiled: $(find /tmp /home /opt/slipway/cache -newer vocab.txt -name '*.so' | wc -l)"
"""


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Image]:
    if reason := reason_not_to_build():
        pytest.skip(reason)
    builder = Builder(tmp_path_factory.mktemp("buildah"))
    try:
        if reason := builder.make_base():
            pytest.skip(reason)
        yield builder.build("cpu")
    finally:
        builder.clear()


def test_jobs_run_as_a_user_that_cannot_change_the_code(image: Image) -> None:
    assert image.run("id -u").stdout.strip() == "1000"
    assert image.run("pwd").stdout.strip() == "/opt/slipway"
    assert image.run("touch /opt/slipway/containers/runtime/launch.py").returncode != 0
    assert image.run("touch /opt/slipway/cache/new").returncode != 0


def test_the_image_holds_what_its_lock_names(image: Image) -> None:
    lock = tomllib.loads((CONTAINERS / "images" / "cpu" / "lock.toml").read_text(encoding="utf-8"))["image"]
    asked = "import sys, torch, deepspeed; print(*sys.version_info[:2], sep='.'); print(torch.__version__)"
    found = image.run(f'python -c "{asked}; print(deepspeed.__version__, torch.version.cuda)"').stdout.split()
    assert found[-4:] == [lock["python"], f"{lock['pytorch']}+cpu", lock["deepspeed"], "None"]


def test_the_data_core_is_compiled_already_and_no_compiler_is_there(image: Image) -> None:
    assert image.run("command -v cc gcc clang c++").stdout == ""
    loaded = image.run(
        "python -c 'from slipway.containers.data.tokens.compiled import library; print(library()._name)'"
    )
    assert loaded.stdout.startswith("/opt/slipway/cache/slipway/data/core-")


def test_two_ranks_prepare_the_sample_and_train_and_nothing_is_compiled(image: Image) -> None:
    done = image.run(TRAIN)
    assert done.returncode == 0, done.stderr
    assert "all ranks succeeded" in done.stdout + done.stderr
    assert "steps: 2" in done.stdout
    assert "compiled: 0" in done.stdout
