"""Components of machine images are valid for AWSTOE, have sound shell, and check all that they download."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import yaml

from slipway.infra.clusters import MACHINE_IMAGES
from slipway.infra.declare.checks.components import commands_of, mistakes, steps_of
from slipway.infra.declare.machine_images import MachineImage
from slipway.jobs.words.images.ami_locks import TO_BE_FILLED
from slipway.jobs.words.images.amis import FROM_VENDOR, ON_HARDWARE

FOLDER = Path(__file__).parents[3] / "infra" / "components"
COMPONENTS = sorted(path.stem for path in FOLDER.glob("*.yaml"))
SHELLCHECK = str(Path(sys.executable).parent / "shellcheck")
SOUND = """
name: tool
description: A tool
schemaVersion: 1.0
parameters:
  - ToolUrl: {type: string, description: Where it is}
  - ToolSha256: {type: string, description: What it is}
phases:
  - name: build
    steps:
      - name: Download
        action: WebDownload
        onFailure: Abort
        inputs:
          - source: "{{ ToolUrl }}"
            destination: /tmp/tool
            checksum: "{{ ToolSha256 }}"
            algorithm: SHA256
  - name: test
    steps:
      - name: Runs
        action: ExecuteBash
        onFailure: Abort
        inputs:
          commands:
            - |
              set -euo pipefail
              /tmp/tool --version
"""


def text_of(name: str) -> str:
    return (FOLDER / f"{name}.yaml").read_text(encoding="utf-8")


def document_of(name: str) -> dict[str, Any]:
    document = yaml.safe_load(text_of(name))
    assert isinstance(document, dict)
    return document


def said(text: str) -> str:
    return "\n".join(mistakes("tool", text, yaml.safe_load(text)))


def shell_findings(script: str) -> str:
    command = [SHELLCHECK, "--shell=bash", "-"]
    return subprocess.run(command, input=script, capture_output=True, text=True, check=False).stdout


@pytest.mark.parametrize("name", COMPONENTS)
def test_a_component_is_a_document_that_image_builder_takes(name: str) -> None:
    assert list(mistakes(name, text_of(name), document_of(name))) == []


@pytest.mark.parametrize("name", COMPONENTS)
def test_the_shell_of_a_component_is_shellcheck_clean(name: str) -> None:
    for phase, step in steps_of(document_of(name)):
        for command in commands_of(step):
            assert shell_findings(command) == "", f"{phase} {step['name']}"
        inputs = step["inputs"] if isinstance(step["inputs"], list) else []
        for content in (each.get("content", "") for each in inputs):
            assert not content.startswith("#!") or shell_findings(content) == ""


def test_shellcheck_would_find_what_is_wrong() -> None:
    assert "SC2086" in shell_findings("echo $1\n")


@pytest.mark.parametrize("name", COMPONENTS)
def test_a_component_points_to_what_its_words_mean(name: str) -> None:
    assert "README.md" in text_of(name).partition("name:")[0]


def test_a_sound_document_has_no_mistakes() -> None:
    assert said(SOUND) == ""


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("name: tool", "name: tol", "must say name: tool"),
        ("schemaVersion: 1.0", "schemaVersion: 2", "schemaVersion: 1.0"),
        ("description: A tool", "descripton: A tool", "unknown descripton"),
        ("name: test", "name: tests", "has the phases ['build', 'tests']"),
        ("name: test", "name: validate", "has no test phase"),
        ("name: Runs", "name: does run", "has the step 'does run'"),
        ("action: ExecuteBash", "action: ExecuteBsh", "has the action ExecuteBsh; allowed are"),
        ("onFailure: Abort", "onFailure: Stop", "says onFailure: Stop"),
        ("onFailure: Abort", "onFailur: Abort", "unknown onFailur"),
        ("commands:", "command:", "lacks the input commands"),
        ("set -euo pipefail", "set -eu", "begin with set -euo pipefail"),
        ("/tmp/tool --version", "curl -O https://example.org", "use WebDownload"),
        ("/tmp/tool --version", "/tmp/tool {{ ToolVersion }}", "uses ToolVersion and declares no such"),
        ('source: "{{ ToolUrl }}"', "source: https://example.org", "ToolUrl and never uses it"),
        ('checksum: "{{ ToolSha256 }}"', "", "has no checksum and no key of the lock"),
        ('checksum: "{{ ToolSha256 }}"', "checksum: 0a0a", "has no checksum and no key of the lock"),
        ("algorithm: SHA256", "algorithm: MD5", "has no checksum and no key of the lock"),
    ],
)
def test_a_mistake_is_said(old: str, new: str, expected: str) -> None:
    assert old in SOUND
    assert expected in said(SOUND.replace(old, new, 1))


def test_a_component_that_is_too_long_is_refused_before_it_is_sent() -> None:
    assert "Image Builder takes 16000" in said(SOUND + "#" * 16_000)


def test_a_download_may_be_held_by_a_pinned_key_instead_of_a_checksum() -> None:
    by_key = SOUND.replace('checksum: "{{ ToolSha256 }}"', "").replace(
        "/tmp/tool --version", "slipway-trust-key /tmp/tool '{{ ToolSha256 }}' /tmp/keyring"
    )
    assert said(by_key) == ""
    assert "has no checksum" in said(
        by_key.replace("slipway-trust-key /tmp/tool ", "slipway-trust-key /tmp/x ")
    )


@pytest.mark.parametrize("name", COMPONENTS)
def test_what_needs_a_device_or_a_vendor_is_named_so(name: str) -> None:
    """Commands that only work on AWS or with what a vendor sent; the yard runs every other step."""
    needing = (
        "uname -r",
        "modprobe",
        "hl-smi",
        "neuron-ls",
        "docker info",
        "installer.sh",
        "slipway-trust-key",
    )
    for _, step in steps_of(document_of(name)):
        marked = step["name"].endswith((ON_HARDWARE, FROM_VENDOR))
        found = [word for word in needing if word in "".join(commands_of(step))]
        assert marked or not found, f"{step['name']} runs {found}"
        assert marked or step["action"] != "WebDownload"


def program(name: str, folder: Path) -> Path:
    """Write a program of base-apt as the component does."""
    (step,) = (each for _, each in steps_of(document_of("base-apt")) if each["name"] == "TrustKeys")
    (content,) = [each["content"] for each in step["inputs"] if each["path"].endswith(f"/{name}")]
    path = folder / name
    path.write_text(content, encoding="utf-8")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize("word", [(), ("signed",)])
def test_a_file_whose_checksum_nobody_knows_yet_says_it_and_is_used_only_if_it_is_signed(
    tmp_path: Path, word: tuple[str, ...]
) -> None:
    check, file = program("slipway-check-sha256", tmp_path), tmp_path / "file"
    file.write_text("package", encoding="utf-8")
    digest = sha256(b"package").hexdigest()

    def prove(locked: str) -> subprocess.CompletedProcess[str]:
        command = [str(check), str(file), locked, *word]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    assert prove(digest).returncode == 0
    assert prove("0" * 64).returncode == 1
    asked = prove(TO_BE_FILLED)
    assert f"has the SHA-256 {digest}; write it into the lock" in asked.stderr
    assert (asked.returncode == 0) is bool(word)


def test_the_efa_installer_brings_the_libfabric_that_is_asked_for_afterwards() -> None:
    """With --minimal it brought only the driver, and the bake ended at its own test."""
    text = text_of("efa")
    assert "fi_info" in text
    assert "--minimal" not in text


class KeyRing:
    """Return slipway-trust-key as the component writes it, and a key made here."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.program = folder, program("slipway-trust-key", folder)
        home = folder / "home"
        home.mkdir(mode=0o700)
        self._gpg = (
            "gpg",
            "--homedir",
            str(home),
            "--batch",
            "--pinentry-mode",
            "loopback",
            "--passphrase",
            "",
        )
        self.run(*self._gpg, "--quick-generate-key", "vendor@example.org", "ed25519", "sign", "never")
        listed = self.run(*self._gpg, "--with-colons", "--list-keys").stdout
        self.fingerprint = next(line.split(":")[9] for line in listed.splitlines() if line[:3] == "fpr")
        self.key = folder / "vendor.key"
        self.key.write_text(self.run(*self._gpg, "--armor", "--export").stdout, encoding="utf-8")

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(command, capture_output=True, text=True, check=False)

    def trust(self, fingerprint: str) -> subprocess.CompletedProcess[str]:
        return self.run(str(self.program), str(self.key), fingerprint, str(self.folder / "keyring.gpg"))

    def signed(self, content: str) -> tuple[str, str]:
        file, signature = self.folder / "file", self.folder / "file.asc"
        file.write_text(content, encoding="utf-8")
        signature.unlink(missing_ok=True)
        self.run(*self._gpg, "--armor", "--detach-sign", "--output", str(signature), str(file))
        return str(signature), str(file)


@pytest.fixture
def ring(tmp_path: Path) -> KeyRing:
    return KeyRing(tmp_path)


def test_a_key_with_the_locked_fingerprint_is_trusted_and_verifies(ring: KeyRing) -> None:
    assert ring.trust(ring.fingerprint).returncode == 0
    signature, file = ring.signed("package")
    keyring = str(ring.folder / "keyring.gpg")
    assert ring.run("gpgv", "--keyring", keyring, signature, file).returncode == 0
    Path(file).write_text("another", encoding="utf-8")
    assert ring.run("gpgv", "--keyring", keyring, signature, file).returncode != 0


def test_a_key_with_another_fingerprint_is_refused_and_leaves_nothing(ring: KeyRing) -> None:
    done = ring.trust("0" * 40)
    assert done.returncode == 1
    assert ring.fingerprint in done.stderr
    assert not (ring.folder / "keyring.gpg").exists()


def test_an_image_that_makes_no_progress_is_given_up() -> None:
    """The job then fails by name; otherwise its nodes would be billed while they wait for a layer."""
    assert "boot/agents/ecs.config >>/etc/ecs/ecs.config" in text_of("ecs-agent")
    settings = Path(__file__).parents[3] / "infra" / "boot" / "agents" / "ecs.config"
    assert "ECS_IMAGE_PULL_INACTIVITY_TIMEOUT=30m\n" in settings.read_text(encoding="utf-8")
    assert "ECS_AWSVPC_BLOCK_IMDS=true\n" in settings.read_text(encoding="utf-8")


@pytest.mark.parametrize("image", [image for image in MACHINE_IMAGES if "slipway-node" in image.components])
def test_nodes_that_run_jobs_themselves_bring_what_compiles_the_core_of_the_data(image: MachineImage) -> None:
    """Each job brings the code with its C source; container images have it compiled."""
    lock = Path(__file__).parents[3] / "containers" / "images" / image.name / "lock.toml"
    packages = set(tomllib.loads(lock.read_text(encoding="utf-8"))["apt"]["packages"])
    assert packages >= {"gcc", "libc6-dev"} or "g++" in packages
