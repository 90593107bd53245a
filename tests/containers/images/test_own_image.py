"""A project's own image is built by the script that CodeBuild runs, as an ordinary user.

buildah stands in for Docker, without a daemon or root, and a local Debian for the registry's.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from slipway.jobs.clusters.images.builds import find_project_image
from slipway.yard.services.imagebuilder.machine.base import base_archive, reason_for_no_base
from tests.containers.images.builder import CONTAINERS
from tests.jobs.code.projects import write
from tests.waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.long]  # minutes: a Debian is unpacked, and copied for each layer

SCRIPT = CONTAINERS.parent / "infra" / "components" / "build_image.sh"
REPOSITORY = "123456789012.dkr.ecr.us-east-1.amazonaws.com/own"
BUILDAH = (
    'buildah() { command buildah --root "$HOME/store" --runroot "$HOME/run" --storage-driver vfs "$@"; }\n'
)
# Stands in for docker as the script calls it: nothing is pulled that no registry has, and a push writes a
# file. Docker finds `own-base` among its own images; buildah has to be told that it is local.
DOCKER = f"""#!/usr/bin/env bash
set -euo pipefail
{BUILDAH}
case $1 in
login) cat >/dev/null ;;
build)
  shift
  [ "$1" != --pull ] || shift
  buildah build --isolation chroot --pull=never "${{@/=own-base/=localhost/own-base}}"
  ;;
image) buildah inspect --type image --format '{{{{.FromImageDigest}}}}' "${{@: -1}}" ;;
push) buildah push "$2" "oci-archive:$HOME/pushed.tar" ;;
esac
"""
AWS = "#!/bin/sh\ncase $2 in describe-images) exit 1 ;; get-login-password) echo secret ;; esac\n"
DOCKERFILE = """FROM localhost/public
RUN ln -s python3 /usr/bin/python
COPY weights /opt/weights
ENTRYPOINT ["/bin/false"]
"""
JOB = (
    "import slipway.containers.runtime.launch as own, pathlib; "
    "print(own.__file__, pathlib.Path('/opt/weights').read_text())"
)
LEFT_OUT = "--exclude=./usr/share --exclude=./var --exclude=./usr/lib/udev"  # each layer is a copy of all
FIRST_ID, IDS = 2_000_000, 65536  # of nobody on this machine, where the tests are root's
AS_NOBODY = (
    *("setpriv", "--reuid", str(FIRST_ID), "--regid", str(FIRST_ID), "--clear-groups"),
    *("unshare", "--user"),
)


def test_a_project_s_image_is_built_and_pushed_without_root_and_starts_jobs(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tag = write_sources(tmp_path, home / "source", monkeypatch)
    (home / "base").mkdir()
    (home / "base" / "Dockerfile").write_text("FROM scratch\nCOPY root /\n", encoding="utf-8")
    shutil.copy(base_archive(lambda _: None), home / "debian.tar")
    unpack = f"mkdir base/root && tar --no-same-owner -C base/root {LEFT_OUT} -xf debian.tar"
    as_a_user(home, f"{unpack} && buildah build --isolation chroot --tag localhost/public base")
    as_a_user(home, "cd source && bash build_image.sh", IMAGE="vision", TAG=tag, REPOSITORY=REPOSITORY)
    assert tarfile.is_tarfile(home / "pushed.tar")
    built = f"{REPOSITORY}:{tag}"
    said = as_a_user(
        home,
        f"container=$(buildah from --pull-never {built}) && "
        f'buildah run --isolation chroot "$container" -- python -c "{JOB}" && '
        f"buildah inspect --type image --format '{{{{.OCIv1.Config.Entrypoint}}}}' {built}",
    )
    assert said.split() == ["/opt/slipway/slipway/containers/runtime/launch/__init__.py", "mine", "[]"]


@pytest.fixture
def home() -> Iterator[Path]:
    """Make a folder of the ordinary user, with what the script calls; pytest's folders belong to root."""
    if shutil.which("buildah") is None:
        pytest.skip("buildah is not installed here")
    if reason := reason_for_no_base():
        pytest.skip(reason)
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
        folder = Path(name)
        folder.chmod(0o755)
        for program, text in {"docker": DOCKER, "aws": AWS}.items():
            (folder / program).write_text(text, encoding="utf-8")
            (folder / program).chmod(0o755)
        yield folder


def write_sources(project: Path, source: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Write what `slipway image build vision` sends to CodeBuild, and return its tag."""
    files = {"cdk.json": "{}", "clusters.py": "", "images/vision/Dockerfile": DOCKERFILE}
    write(project, {**files, "images/vision/weights": "mine"})
    monkeypatch.chdir(project)
    image = find_project_image("vision")
    assert image is not None
    for entry in image.entries:
        (source / entry.name).parent.mkdir(parents=True, exist_ok=True)
        (source / entry.name).write_bytes(entry.content)
    shutil.copy(SCRIPT, source)
    return image.tag


def as_a_user(home: Path, script: str, **variables: str) -> str:
    """Run it in the user's home, and return what it prints.

    If root runs the tests, the user is in a namespace whose IDs nobody has on this machine.
    """
    command = ["bash", "-c", f"set -euo pipefail\nread -r _\n{BUILDAH}{script}"]
    is_root = os.geteuid() == 0
    process = subprocess.Popen(
        [*AS_NOBODY, *command] if is_root else command,
        cwd=home,
        env={"HOME": str(home), "TMPDIR": str(home), "PATH": f"{home}:/usr/bin:/bin", **variables},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    if is_root:
        subprocess.run(["chown", "-R", f"{FIRST_ID}:{FIRST_ID}", str(home)], check=True)
        map_ids(Path("/proc", str(process.pid)))
    out, err = process.communicate("\n")
    assert process.returncode == 0, out[-3000:] + err[-3000:]
    return out


def map_ids(process: Path) -> None:
    """Map the users of a process's namespace as soon as it has one."""
    until(lambda: (process / "ns" / "user").readlink() != Path("/proc/self/ns/user").readlink())
    for name in ("uid_map", "gid_map"):
        (process / name).write_text(f"0 {FIRST_ID} {IDS}", encoding="ascii")
