"""`scripts/test --all` makes the separate environments, and an interrupted set-up starts again."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.scripts.checkouts import Checkout, Running, make_checkout
from tests.waiting import until

LOCKS = Path("scripts", "locks", "apart")
PINNED = {"sagemaker-v3": "sagemaker==3.27.0", "examples": "mlflow==3.17.2", "neuron-torch": "torch==2.9.0"}
BESIDE = "lib/python3.11/site-packages"
INSTALLS = "uv pip install"
MAKES_ENVIRONMENTS = """
if [ "$1" = venv ]; then
  mkdir -p "${@: -1}/bin" "${@: -1}/BESIDE"
  ln -sf /bin/true "${@: -1}/bin/python"
fi
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    made = make_checkout(tmp_path)
    (tmp_path / LOCKS).mkdir(parents=True)
    for name, pinned in PINNED.items():
        (tmp_path / LOCKS / f"{name}.txt").write_text(f"{pinned}\n")
    (tmp_path / ".venv" / BESIDE).mkdir(parents=True)
    with (tmp_path / ".venv" / "bin" / "uv").open("a") as uv:
        uv.write(MAKES_ENVIRONMENTS.replace("BESIDE", BESIDE))
    return made


def installs(checkout: Checkout) -> int:
    return sum(line.startswith(INSTALLS) for line in checkout.said())


def test_all_with_arguments_installs_what_they_may_need_and_passes_them_on(checkout: Checkout) -> None:
    code, said = checkout.run("--all", "tests/jobs", script="test")
    assert code == 0, said
    assert installs(checkout) == len(PINNED)
    assert checkout.said()[-1] == "pytest tests/jobs"


def test_an_interrupted_set_up_begins_anew_and_a_whole_one_is_kept(checkout: Checkout) -> None:
    running = Running(checkout.command("set_up_apart"), checkout.environment(HANGING=INSTALLS))
    until(lambda: any("sleep 1000" in line for line in checkout.processes()))
    assert running.interrupt("Ctrl-C") == 130
    checkout.assert_nothing_is_left()
    for _ in range(2):
        code, said = checkout.run(script="set_up_apart")
        assert code == 0, said
    assert installs(checkout) == 1 + len(PINNED)


def test_pytorch_of_the_image_comes_before_all_that_the_checkout_has_installed(checkout: Checkout) -> None:
    code, said = checkout.run(script="set_up_apart")
    assert code == 0, said
    (beside,) = (checkout.folder / ".venv" / "neuron-torch" / BESIDE).glob("*.pth")
    assert beside.read_text().strip() == str(checkout.folder / ".venv" / BESIDE)
