"""A rank ends with one line and the exit code that says whether another attempt may help."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

import pytest

from slipway.containers.data.errors import DataError
from slipway.containers.runtime.checkpoint.storage import Unreachable
from slipway.containers.runtime.errors import MISTAKE_EXIT_CODE, RESUMABLE_EXIT_CODE, Interruption, Refusal
from slipway.containers.training.rank import run_rank

DENIED = Unreachable("s3://a: access is denied")
DENIED.lasts = True


def raising(error: BaseException) -> Callable[..., NoReturn]:
    def train(*_: object) -> NoReturn:
        raise error

    return train


def ends(error: BaseException) -> int:
    return run_rank("a.module", lambda _: None, raising(error), [], "A training.")


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (Refusal("no data", hint="set it"), MISTAKE_EXIT_CODE, "no data; set it"),
        (Interruption("asked to end"), RESUMABLE_EXIT_CODE, "asked to end"),
        (DataError("a:5: no column"), MISTAKE_EXIT_CODE, "a:5: no column"),
        (Unreachable("s3://a: SlowDown"), RESUMABLE_EXIT_CODE, "s3://a: SlowDown"),
        (DENIED, MISTAKE_EXIT_CODE, "s3://a: access is denied"),
        (
            ImportError("No module named 'torch'", name="torch"),
            MISTAKE_EXIT_CODE,
            "No module named 'torch'; install the extra 'training'",
        ),
    ],
)
def test_what_a_person_can_mend_is_one_line(
    error: Exception, code: int, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ends(error) == code
    assert capsys.readouterr().err == f"error: {line}\n"


def test_too_little_memory_is_final_and_says_what_to_set(capsys: pytest.CaptureFixture[str]) -> None:
    torch = pytest.importorskip("torch")
    assert ends(torch.OutOfMemoryError("tried to allocate 80 GiB\nand much more")) == MISTAKE_EXIT_CODE
    told = "error: tried to allocate 80 GiB; set a smaller micro_batch: another attempt would fail alike\n"
    assert capsys.readouterr().err == told


def test_a_torch_too_old_for_the_error_s_new_name_says_it_too(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    full = torch.cuda.OutOfMemoryError("tried to allocate 80 GiB")
    monkeypatch.delattr(torch, "OutOfMemoryError")
    assert ends(full) == MISTAKE_EXIT_CODE
    assert ends(RuntimeError("[/gloo/pair.cc:534] Connection closed")) == RESUMABLE_EXIT_CODE


@pytest.mark.parametrize(
    "words",
    [
        "[/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed",
        "Collective call returned error",  # Habana's bridge
    ],
)
def test_a_rank_that_lost_another_asks_for_another_attempt(
    words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("torch")
    assert ends(RuntimeError(words)) == RESUMABLE_EXIT_CODE
    assert capsys.readouterr().err.startswith("error: lost another rank: ")


def test_what_ended_a_stage_of_a_pipeline_is_known_under_the_error_that_it_is_wrapped_in(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """torch's pipeline stages raise an error about shapes from the original one."""
    torch = pytest.importorskip("torch")
    for cause, code in (
        (torch.distributed.DistNetworkError("Connection closed by peer"), RESUMABLE_EXIT_CODE),
        (RuntimeError("[/gloo/pair.cc:534] Connection closed"), RESUMABLE_EXIT_CODE),
        (torch.OutOfMemoryError("tried to allocate 80 GiB"), MISTAKE_EXIT_CODE),
    ):
        middle, outer = RuntimeError("failed to run stage backward"), RuntimeError("[Stage 0] failed to run")
        middle.__cause__, outer.__cause__ = cause, middle
        assert ends(outer) == code
        assert str(cause) in capsys.readouterr().err
    plain = RuntimeError("[Stage 0] failed to run")
    plain.__cause__ = ValueError("/gloo/ is in what the user's own code says")
    with pytest.raises(RuntimeError, match="Stage 0"):
        ends(plain)


@pytest.mark.parametrize("error", [RuntimeError("size mismatch"), ImportError("no h5py", name="h5py")])
def test_a_mistake_in_the_code_keeps_its_traceback(error: Exception) -> None:
    if isinstance(error, RuntimeError):
        pytest.importorskip("torch")
    with pytest.raises(type(error), match=str(error)):
        ends(error)
