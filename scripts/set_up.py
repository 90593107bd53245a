"""Make a checkout ready to work: `python3 scripts/set_up.py [GROUP …]`. Standard library only.

Every step says what it installs and why, is skipped when it was done before, and may be interrupted: the next
run goes on. GROUP is a file of scripts/locks (submit, develop, sagemaker, toolkit, deepspeed, training,
compare, sft, release, site), `machine`: the Debian packages of what the yard runs for real, or `browser`:
Chromium, in which tests look at pages. `--missing PACKAGE …` prints those that are not installed.
"""

# Old syntax on purpose: an old Python must get as far as the message that it is too old.
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Iterable, List, Mapping, Sequence, Union

Command = Sequence[Union[str, Path]]

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
LOCKS = ROOT / "scripts" / "locks"
STAMPS = VENV / "set-up"
TORCH = "torch==2.13.0"
NEEDS_TORCH = ("deepspeed", "training", "compare", "sft")
OLDEST_NODE = 22  # older ones are past their end of life; jsii warns on each run
GROUPS = {
    "submit": "the command line: click, rich, boto3",
    "develop": "CDK, the yard (moto, cfn-lint) and the test tools",
    "sagemaker": "the SageMaker SDK (about 300 MB)",
    "toolkit": "AWS's training toolkit, with which the yard's SageMaker jobs start (180 MB)",
    "deepspeed": "DeepSpeed",
    "training": "what the training recipes need beside torch",
    "sft": "TRL and PEFT, with which the recipe sft trains",
    "site": "Sphinx, which builds docs/ as a site",
    "compare": "transformers, safetensors and TensorBoard, which tests and benchmarks compare ours with",
    "release": "what lists and audits the packages that a release stands on, and lints its workflow",
}
# What commands and tests of a group start with. To compile all that groups install takes three times as long:
# most of it is never imported, such as two thirds of the CDK's 180 MB.
STARTS_WITH = {
    "develop": "slipway.infra.app, slipway.yard.server",
    "training": "torch._dynamo, torch.distributed.tensor, slipway.containers.training.engines.native.engine",
}
MACHINE, BROWSER = "machine", "browser"
# What the yard and its tests run for real: a Debian package, and a program that shows that it is installed.
# A test without its program is skipped and says so; the demo leaves out chapters without theirs.
DEBIAN = {
    "buildah": "buildah",  # container images
    "cloud-init": "cloud-init",  # the first boot of hosts
    "debootstrap": "debootstrap",  # the Debian that machine images begin with
    "gcc": "gcc",  # the compiled core of the data preparation
    "iproute2": "ip",  # networks of hosts
    "mariadb-server-core": "mariadbd",  # keeps what slurmdbd writes
    "munge": "munged",  # proves to Slurm who sends a message
    "nftables": "nft",  # their security groups
    "openmpi-bin": "mpirun",
    "openssh-client": "ssh",
    "openssh-server": "sshd",
    "shellcheck": "shellcheck",
    "slurm-client": "sbatch",  # jobs of a Slurm cluster
    "slurmctld": "slurmctld",  # its controller
    "slurmd": "slurmd",  # its nodes
    "slurmdbd": "slurmdbd",  # its accounts
    "systemd-container": "systemd-nspawn",  # hosts that boot systemd
}
# Tests look at pages with it; nothing else needs its 110 MB.
CHROMIUM = {"chromium": "chromium"}
# cloud-init(1): with this file it does nothing when the machine starts.
CLOUD_INIT_DISABLED = Path("/etc/cloud/cloud-init.disabled")
SYSTEM_FOLDERS = "/usr/local/sbin:/usr/sbin:/sbin"  # folders of programs that an ordinary user's PATH lacks


class CannotSetUp(Exception):
    """Reports in one line what is missing and how to get it."""


def main(arguments: Sequence[str]) -> None:
    if arguments[:1] == ["--missing"]:
        print(*missing_packages(arguments[1:]))
        return
    if not sys.platform.startswith("linux"):
        raise CannotSetUp(
            f"set-up needs Linux, and this machine is {sys.platform}; for AWS alone: pip install '.[infra]'"
        )
    groups = list(arguments) or ["develop"]
    unknown = [group for group in groups if group not in (*GROUPS, MACHINE, BROWSER)]
    if unknown:
        raise CannotSetUp(
            f"unknown group '{unknown[0]}'; allowed are {', '.join([*GROUPS, MACHINE, BROWSER])}"
        )
    if sys.version_info < (3, 11):
        raise CannotSetUp(
            f"Python {sys.version.split()[0]} is too old; Slipway needs 3.11 or newer: run this with one"
        )
    for group, packages, reason in (
        (MACHINE, DEBIAN, "what the yard runs for real"),
        (BROWSER, CHROMIUM, "tests look at pages with it"),
    ):
        if group in groups:
            install_debian_packages(packages, reason)
            groups.remove(group)
    make_environment()
    install_lock("uv", "the installer: fast, and it checks every hash", with_pip=True)
    if any(group in NEEDS_TORCH for group in groups):
        install_torch()
    new = [group for group in groups if not is_done(group, lock_of(group))]
    for group in new:
        install_lock(group, GROUPS[group])
    install_slipway()
    if "develop" in groups:
        install_cdk()
    compile_starts(new)


def make_environment() -> None:
    if runs([PYTHON, "-m", "pip", "--version"]):
        return
    refuse_where_not_writable()
    say("creating a virtual environment in .venv")
    if not runs([sys.executable, "-c", "import ensurepip"]):
        install_venv_module()
    shutil.rmtree(VENV, ignore_errors=True)
    run([sys.executable, "-m", "venv", VENV], "cannot create .venv")


def install_venv_module() -> None:
    package = f"python{sys.version_info[0]}.{sys.version_info[1]}-venv"
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        raise CannotSetUp(
            f"this Python has no venv module; install it (on Debian: sudo apt-get install {package})"
        )
    say(f"installing the system package {package}: Debian keeps Python's venv module apart")
    run(["apt-get", "update", "-qq"], "apt-get update failed")
    run(["apt-get", "install", "-y", "-qq", package], f"cannot install {package}")


def install_debian_packages(packages: Iterable[str], reason: str) -> None:
    """Install packages, or say how: nothing else needs them, so a failure does not stop the set-up."""
    missing = missing_packages(packages)
    if not missing:
        return
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        say(f"{without(missing)} To install them: sudo apt-get install {' '.join(missing)}")
        return
    say(f"installing {', '.join(missing)}: {reason}")
    if "cloud-init" in missing:  # for the yard's hosts: it must not set up this machine when it next boots
        CLOUD_INIT_DISABLED.parent.mkdir(exist_ok=True)
        CLOUD_INIT_DISABLED.touch()
    try:
        run(["apt-get", "update", "-qq"], "apt-get update failed")
        run(
            ["apt-get", "install", "-y", "-qq", "--no-install-recommends", *missing],
            "apt-get install failed",
            more={"DEBIAN_FRONTEND": "noninteractive", "SYSTEMD_OFFLINE": "1"},  # start no services
        )
    except CannotSetUp as problem:
        say(f"{problem}. {without(missing)}")


def missing_packages(packages: Iterable[str]) -> List[str]:
    return [package for package in packages if not is_installed({**DEBIAN, **CHROMIUM}[package])]


def without(packages: Sequence[str]) -> str:
    return f"not on this machine: {', '.join(packages)}. What needs them is left out of tests and demo."


def is_installed(program: str) -> bool:
    path = os.pathsep.join([os.environ.get("PATH", ""), SYSTEM_FOLDERS])
    return shutil.which(program, path=path) is not None


def lock_of(group: str) -> Path:
    return LOCKS / f"{group}.txt"


def install_lock(group: str, reason: str, *, with_pip: bool = False) -> None:
    lock = lock_of(group)
    if is_done(group, lock):
        return
    say(f"installing {group}: {reason}")
    if with_pip:
        command: List[Union[str, Path]] = [PYTHON, "-m", "pip", "install", "--quiet"]
        command += ["--disable-pip-version-check"]
    else:
        # A lock names all that its packages need except torch, which is installed already and has no hash.
        command = [VENV / "bin" / "uv", "pip", "install", "--quiet", "--no-deps", "--python", PYTHON]
    run([*command, "--require-hashes", "-r", lock], f"cannot install {lock.relative_to(ROOT)}")
    mark_done(group, lock)


def install_torch() -> None:
    """Install torch before what depends on it: else the installer takes a build with gigabytes of CUDA."""
    probe = f"import torch; assert torch.__version__.split('+')[0] == '{TORCH.split('==')[1]}'"
    if runs([PYTHON, "-c", probe]):
        return
    say(f"installing {TORCH} (any build of this version serves)")
    run(
        [PYTHON, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile", TORCH],
        f"cannot install {TORCH}",
    )


def install_slipway() -> None:
    """Install Slipway as editable, so that the command and the CDK app run from this checkout."""
    project = ROOT / "pyproject.toml"
    if is_done("slipway", project) and (VENV / "bin" / "slipway").exists():
        return
    say("installing the slipway command from this checkout")
    command: List[Union[str, Path]] = [VENV / "bin" / "uv", "pip", "install", "--quiet", "--python", PYTHON]
    run([*command, "--no-deps", "--no-build-isolation", "-e", ROOT], "cannot install slipway")
    mark_done("slipway", project)


def compile_starts(groups: Iterable[str]) -> None:
    """Write the bytecode of what commands import: they may start where nobody can write it."""
    path = f"{VENV / 'bin'}{os.pathsep}{os.environ.get('PATH', '')}"
    environment = {**os.environ, "PATH": path, "PYTHONDONTWRITEBYTECODE": ""}
    imports = [STARTS_WITH[group] for group in groups if group in STARTS_WITH]
    for started in [
        subprocess.Popen([PYTHON, "-c", f"import {names}"], cwd=ROOT, env=environment) for names in imports
    ]:
        if started.wait():
            raise CannotSetUp(
                "what was installed cannot be imported, as is said above; remove .venv and run again"
            )


def install_cdk() -> None:
    lock = ROOT / "package-lock.json"
    cli = ROOT / "node_modules" / "aws-cdk" / "bin" / "cdk"
    ensure_node()
    if not (is_done("cdk", lock) and cli.exists()):
        say("installing the AWS CDK command line (npm, 29 MB)")
        if cli.parents[2].is_symlink():
            cli.parents[2].unlink()  # npm would empty the folder behind it, of another checkout
        run(
            [find("npm"), "ci", "--no-audit", "--no-fund", "--loglevel=error"],
            "cannot install aws-cdk",
            cwd=ROOT,
        )
        mark_done("cdk", lock)
    # `cdk` in .venv runs the pinned version, and finds this environment's python and node.
    command = VENV / "bin" / "cdk"
    text = f'#!/bin/sh\nPATH="{VENV / "bin"}:$PATH" exec node "{cli}" "$@"\n'
    if not command.exists() or command.read_text() != text:
        command.write_text(text)
        command.chmod(0o755)


def ensure_node() -> None:
    """Use the machine's Node if it is new enough and has npm, else install a Python wheel into .venv."""
    if (VENV / "bin" / "npm").exists() or (shutil.which("npm") and major_of_node() >= OLDEST_NODE):
        return
    found = (
        f"the machine's node is version {major_of_node()}"
        if shutil.which("node")
        else "the machine has no node"
    )
    say(f"installing node into .venv: {found}, and the CDK needs {OLDEST_NODE} or newer with npm")
    install_lock("node", "node and npm, 61 MB")


def major_of_node() -> int:
    if not shutil.which("node"):
        return 0
    answer = subprocess.run(["node", "--version"], capture_output=True, text=True, check=False).stdout
    return int(answer.lstrip("v").split(".")[0] or 0)


def find(program: str) -> str:
    path = os.pathsep.join([str(VENV / "bin"), os.environ.get("PATH", "")])
    found = shutil.which(program, path=path)
    if not found:
        raise CannotSetUp(f"{program} is missing; install Node.js {OLDEST_NODE} or newer with npm")
    return found


def is_done(name: str, lock: Path) -> bool:
    stamp = STAMPS / name
    return stamp.exists() and stamp.read_text() == digest(lock)


def mark_done(name: str, lock: Path) -> None:
    STAMPS.mkdir(exist_ok=True)
    (STAMPS / name).write_text(digest(lock))


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def runs(command: Command) -> bool:
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def run(
    command: Command,
    complaint: str,
    cwd: "Path | None" = None,
    more: "Mapping[str, str] | None" = None,
) -> None:
    refuse_where_not_writable()
    path = f"{VENV / 'bin'}{os.pathsep}{os.environ.get('PATH', '')}"
    environment = {**os.environ, "PATH": path, **(more or {})}
    finished = subprocess.run(command, cwd=cwd, env=environment, stdout=sys.stderr, check=False)
    if finished.returncode:
        raise CannotSetUp(
            f"{complaint}: {Path(command[0]).name} ended with {finished.returncode}; mend it and run again"
        )


def refuse_where_not_writable() -> None:
    for folder in (ROOT, VENV):
        if folder.exists() and not os.access(folder, os.W_OK):
            raise CannotSetUp(f"you may not write in {folder}; clone the repository to a folder of your own")


def say(text: str) -> None:
    print(f"set-up: {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except CannotSetUp as problem:
        sys.exit(f"error: {problem}")
    except KeyboardInterrupt:
        sys.exit("\nset-up: interrupted; run the same command again to go on")
