"""A user's own command gets its folder and place on ranks, and its ending is told, as on a cluster's node."""

from __future__ import annotations

import json
import signal
import subprocess
import zipfile
from pathlib import Path

import pytest

from slipway.containers.recipes.command.own_recipe import recipe_words
from slipway.containers.runtime.launch.node_roles import WORKED_ALONE
from tests.containers.recipes.command.nodes import ROOT, Node
from tests.jobs.code.projects import write

SHOW = """
import json, os, sys
keep = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "NODE_RANK", "NNODES", "PET_NNODES")
told = {name: os.environ.get(name) for name in keep}
said = {**told, "argv": sys.argv[1:], "cwd": os.getcwd(), "files": sorted(os.listdir())}
sys.stdout.write(json.dumps(said) + "\\n")  # whole: print writes its end apart, after a line of another rank
"""
COUNT = """
import os
from dataclasses import dataclass
from rows import ROWS

@dataclass
class Config:
    times: int = 1

def train(config):
    print(os.environ["RANK"], "counts", ROWS * config.times)
"""
REDUCE = """
import os
import torch
from torch import distributed

distributed.init_process_group("gloo")
ones = torch.ones(1)
distributed.all_reduce(ones)
checkpoints = os.environ["SLIPWAY_CHECKPOINTS"]
with open(f"{checkpoints}/rank-{distributed.get_rank()}", "w") as file:
    file.write(str(int(ones)))
distributed.destroy_process_group()
os._exit(0)  # Python's own end may meet a thread of gloo that lives on, and abort
"""


def shown(done: subprocess.CompletedProcess[str]) -> list[dict[str, object]]:
    lines = [line.partition(" ")[2] for line in done.stdout.splitlines() if '"argv"' in line]
    return sorted(map(json.loads, lines), key=lambda told: str(told["RANK"]))


def test_the_command_runs_in_its_folder_with_its_words_and_torchruns_variables(tmp_path: Path) -> None:
    node = Node(tmp_path, {"show.py": SHOW, "model/net.py": ""})
    odd = ["$(id)", "a b", "é", "'\"\\", "", "*", "--", "--set", "Ref::x"]
    done = node.run("python", "show.py", *odd)
    assert done.returncode == 0, done.stderr
    ranks = shown(done)
    assert [(rank["RANK"], rank["LOCAL_RANK"], rank["WORLD_SIZE"]) for rank in ranks] == [
        ("0", "0", "2"),
        ("1", "1", "2"),
    ]
    assert [rank["argv"] for rank in ranks] == [odd, odd]
    assert ranks[0]["files"] == ["model", "show.py"]
    assert ranks[0]["cwd"] == ranks[1]["cwd"], "the folder is unpacked once a node"
    assert (ranks[0]["NODE_RANK"], ranks[0]["NNODES"], ranks[0]["PET_NNODES"]) == ("0", "1", None)


# It exits at once: Python's own shutdown may meet a running thread of torch.
JOIN = """
import os
import time
from accelerate import Accelerator

found = Accelerator()
print(f"rank {found.process_index} of {found.num_processes}", flush=True)
found.wait_for_everyone()
time.sleep(float(os.environ.get("STAYS", "0")))  # as a training does: who goes at once is not judged
os._exit(0)
"""


STOOD_IN_FOR = {"SLIPWAY_ACCELERATOR": "habana", "SLIPWAY_ACCELERATORS": "2", "SLIPWAY_STAND_IN": "1"}


@pytest.mark.slow
# runtime/launch/test_assignment.py checks what accelerate is told on each kind of node.
@pytest.mark.parametrize(
    "promised",
    [pytest.param({}, id="none", marks=pytest.mark.long), pytest.param(STOOD_IN_FOR, id="stand-in")],
)
def test_ranks_without_accelerators_train_together_under_accelerate(
    promised: dict[str, str], tmp_path: Path
) -> None:
    pytest.importorskip("accelerate", reason="the extra 'compare' is not installed")
    done = Node(tmp_path, {"join.py": JOIN}).run("python", "join.py", settings=None, **promised)
    assert done.returncode == 0, done.stderr
    said = sorted(line for line in done.stdout.splitlines() if "rank" in line)
    assert said == ["[0] rank 0 of 2", "[1] rank 1 of 2"]
    assert WORKED_ALONE not in done.stderr


@pytest.mark.slow
def test_ranks_that_train_alone_under_accelerate_are_told_of_and_the_job_succeeds(tmp_path: Path) -> None:
    pytest.importorskip("accelerate", reason="the extra 'compare' is not installed")
    done = Node(tmp_path, {"join.py": JOIN}).run("python", "join.py", ACCELERATE_USE_CPU="false", STAYS="2")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("rank 0 of 1") == 2
    assert f"warning: the 2 {WORKED_ALONE}: they formed a process group, and sent" in done.stderr


def test_a_recipe_of_ones_own_reads_its_settings_on_each_rank(tmp_path: Path) -> None:
    node = Node(tmp_path, {"recipes/counting.py": COUNT, "rows.py": "ROWS = 2"})
    done = node.run(*recipe_words("recipes.counting", ["times=3"]))
    assert done.returncode == 0, done.stderr
    assert sorted(line for line in done.stdout.splitlines() if "counts" in line) == [
        "[0] 0 counts 6",
        "[1] 1 counts 6",
    ]
    wrong = node.run(*recipe_words("recipes.counting", ["time=3"]))
    assert wrong.returncode == 2
    assert "error: 'time' is not a setting; did you mean times?" in wrong.stderr


LIVE = """
import ctypes
from dataclasses import dataclass

@dataclass
class Config:
    library: str

def train(config):
    ctypes.CDLL(config.library)
"""


def test_a_recipe_whose_library_still_has_a_thread_ends_well_and_a_command_is_told_what_to_do(
    tmp_path: Path, live_thread: Path
) -> None:
    load = f"import ctypes; ctypes.CDLL('{live_thread}')"
    node = Node(tmp_path, {"recipes/live.py": LIVE})
    done = node.run(*recipe_words("recipes.live", [f"library={live_thread}"]), SLIPWAY_PROCESSES_PER_NODE="1")
    assert done.returncode == 0, done.stderr
    aborted = node.run("python", "-c", load, SLIPWAY_PROCESSES_PER_NODE="1")
    assert aborted.returncode == 128 + signal.SIGABRT
    assert "if it ended after the training, flush what you wrote and end by os._exit(0)" in aborted.stderr


def test_a_plain_script_of_torch_distributed_trains_unchanged(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="the extra 'training' is not installed")
    node, kept = Node(tmp_path, {"train.py": REDUCE}), tmp_path / "kept/here"
    done = node.run("python", "train.py", SLIPWAY_CHECKPOINTS=str(kept))
    assert done.returncode == 0, done.stderr
    assert [(kept / f"rank-{rank}").read_text() for rank in range(2)] == ["2", "2"]


def test_a_command_that_starts_the_ranks_of_its_node_itself_is_started_once(tmp_path: Path) -> None:
    node = Node(tmp_path, {"show.py": SHOW})
    variables = {"SLIPWAY_PROCESSES_PER_NODE": "1", "SLIPWAY_ACCELERATORS": "2", "SLIPWAY_STAND_IN": "1"}
    torchrun = ("python", "-m", "torch.distributed.run", "show.py", "word")
    pytest.importorskip("torch", reason="the extra 'training' is not installed")
    done = node.run(*torchrun, settings={"per_node": "yes"}, **variables)
    assert done.returncode == 0, done.stderr
    assert [(rank["RANK"], rank["WORLD_SIZE"], rank["argv"]) for rank in shown(done)] == [
        ("0", "2", ["word"]),
        ("1", "2", ["word"]),
    ]


@pytest.mark.parametrize("code", [0, 3, 85])
def test_the_exit_code_is_the_commands_own(tmp_path: Path, code: int) -> None:
    assert Node(tmp_path, {"a": ""}).run("sh", "-c", f"exit {code}").returncode == code


@pytest.mark.parametrize(
    ("command", "code", "said"),
    [
        ("no-such-program", 127, "error: the command 'no-such-program' is not in this image"),
        ("train.sh", 127, "write ./train.sh or python train.sh"),
        ("./nowhere.sh", 127, "error: the command './nowhere.sh' is not in the folder"),
        ("./train.sh", 126, "error: the command './train.sh' is no program; chmod +x ./train.sh"),
        ("./lost.sh", 127, "what the first line of './lost.sh' names is not in this image"),
    ],
)
def test_a_command_that_cannot_start_is_named_and_ends_as_in_a_shell(
    tmp_path: Path, command: str, code: int, said: str
) -> None:
    write(tmp_path / "project", {"lost.sh": "#!/no/such/shell\n"})
    (tmp_path / "project/lost.sh").chmod(0o755)
    done = Node(tmp_path, {"train.sh": "echo\n"}).run(command, SLIPWAY_PROCESSES_PER_NODE="1")
    assert done.returncode == code
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_a_command_hears_that_it_has_to_end_and_may_ask_for_another_attempt(tmp_path: Path) -> None:
    """F05"""
    script = "trap 'echo saved; exit 85' TERM\necho ready\nwhile :; do sleep 0.1; done\n"
    node = Node(tmp_path, {"wait.sh": script})
    running = subprocess.Popen(
        node.words("sh", "wait.sh"),
        cwd=ROOT,
        env=node.environment(SLIPWAY_PROCESSES_PER_NODE="1"),
        stdout=subprocess.PIPE,
        text=True,
    )
    with running:
        assert running.stdout is not None
        while "ready" not in running.stdout.readline():
            assert running.poll() is None
        running.send_signal(signal.SIGTERM)
        rest = running.stdout.read()
    assert "saved" in rest
    assert running.returncode == 85


def test_programs_inherit_no_signal_that_python_ignores(tmp_path: Path) -> None:
    done = Node(tmp_path, {"a": ""}).run(
        "grep", "SigIgn", "/proc/self/status", SLIPWAY_PROCESSES_PER_NODE="1"
    )
    (ignored,) = (int(line.split()[-1], 16) for line in done.stdout.splitlines() if "SigIgn" in line)
    assert not ignored & (1 << (signal.SIGPIPE - 1)), "`yes | head` would write errors"


def test_each_attempt_has_a_clean_folder_and_the_next_job_removes_it(tmp_path: Path) -> None:
    node = Node(tmp_path, {"a": ""})
    write_once = ("sh", "-c", "ls; echo x > left-over-$RANK")
    assert node.run(*write_once, SLIPWAY_ATTEMPT="1").returncode == 0
    (first,) = node.folders("attempt-")
    done = node.run(*write_once, SLIPWAY_ATTEMPT="2", SLIPWAY_PROCESSES_PER_NODE="1")
    assert "left-over" not in done.stdout
    (second,) = node.folders("attempt-")
    assert second != first


def wheel(folder: Path) -> None:
    """A package that no index has."""
    folder.mkdir(parents=True)
    told = "own_words-1.0.dist-info"
    with zipfile.ZipFile(folder / "own_words-1.0-py3-none-any.whl", "w") as archive:
        archive.writestr("own_words.py", "SAID = 'from the wheel'\n")
        archive.writestr(f"{told}/METADATA", "Metadata-Version: 2.1\nName: own-words\nVersion: 1.0\n")
        archive.writestr(f"{told}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{told}/RECORD", "")


def test_requirements_are_installed_once_on_a_node_beside_what_the_image_has(tmp_path: Path) -> None:
    wheel(tmp_path / "project/wheels")
    files = {
        "requirements.txt": "--no-index\n--find-links wheels\nown-words\npip\n",
        "train.py": "import own_words, pip; print(own_words.SAID, pip.__file__)\n",
    }
    node, wanted = Node(tmp_path, files), {"requirements": "requirements.txt"}
    done = node.run("python", "train.py", settings=wanted)
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stdout.splitlines() if "from the wheel" in line]
    assert len(lines) == 2
    assert not any("packages-" in line for line in lines), "the image's own pip is good enough"
    assert done.stderr.count("installing requirements.txt") == 1
    again = node.run("python", "train.py", settings=wanted, SLIPWAY_ATTEMPT="2")
    assert again.returncode == 0, again.stderr
    assert "installing" not in again.stderr


def test_requirements_that_cannot_be_installed_end_the_job_with_the_reason(tmp_path: Path) -> None:
    node = Node(tmp_path, {"requirements.txt": "--no-index\nno-such-package-here\n"})
    done = node.run("true", settings={"requirements": "requirements.txt"})
    assert done.returncode == 2
    assert "No matching distribution found for no-such-package-here" in done.stderr
    assert "error: this node could not install requirements.txt" in done.stderr
