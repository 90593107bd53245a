"""The example that pre-trains a Llama resumes from the newest undamaged checkpoint."""

from __future__ import annotations

import importlib.util
import subprocess
from pathlib import Path
from types import ModuleType

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers", reason="the extra 'compare' is not installed")

from tests.containers.forks import ROOT, free_port

pytestmark = pytest.mark.filterwarnings("ignore")  # of what transformers and the library import


@pytest.fixture
def train(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    place = {"RANK": 0, "WORLD_SIZE": 1, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port()}
    for name, value in place.items():
        monkeypatch.setenv(name, str(value))
    file = ROOT / "docs" / "examples" / "pretrain_llama" / "train.py"
    spec = importlib.util.spec_from_file_location("llama_example", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "FOLDER", tmp_path)
    return module


def test_the_llama_passes_over_a_checkpoint_with_a_flipped_bit(
    train: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(train, "STEPS", 20)
    train.main()
    undisturbed = capsys.readouterr().out.splitlines()
    newest = tmp_path / "step-00000020"
    subprocess.run(["sha256sum", "--check", "--quiet", train.SUMS], cwd=newest, check=True)
    (file,) = newest.glob("*.distcp")
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    train.main()
    said = capsys.readouterr().out.splitlines()
    assert said[:2] == ["skipping step-00000020: it is not what was saved", "resuming from step 10"]
    assert said[2:] == undisturbed[2:]  # the loss is the same, and the damaged checkpoint is replaced
    subprocess.run(["sha256sum", "--check", "--quiet", train.SUMS], cwd=newest, check=True)
