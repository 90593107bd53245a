"""Secrets in a folder are found, with their lines, before it is sent; ordinary code raises no alarm."""

from __future__ import annotations

import base64
import string
from hashlib import sha512
from pathlib import Path

import pytest

from slipway.jobs.code.folder import CannotShip, read_folder
from slipway.jobs.code.secrets import ALLOWED_IN, FoundSecret, find_secrets
from tests.jobs.code.projects import write

LETTERS = string.ascii_letters + string.digits
HOUSE = Path(__file__).parents[3]


def drawn(count: int, of: str = LETTERS) -> str:
    """Return characters that are nobody's secret, and the same in each run."""
    drawn_bytes = b"".join(sha512(bytes([place])).digest() for place in range(4))
    return "".join(of[byte % len(of)] for byte in drawn_bytes[:count])


KEY = base64.b64encode(drawn(250).encode()).decode()
BEGIN, END = "-----BEGIN RSA PRIVATE" + " KEY-----", "-----END RSA PRIVATE" + " KEY-----"
UPPER = string.ascii_uppercase + "234567"
# BI-451. A line, and the kind that is told. No literal here is a secret, because scanners read this file,
# too.
SECRETS: dict[str, tuple[str, str]] = {
    "pem": (f"{BEGIN}\n{KEY}\n{END}", "a private key"),
    "service account": (f'"private_key": "{BEGIN}\\n{KEY}"', "a private key"),
    "with a passphrase": (f"{BEGIN}\nProc-Type: 4,ENCRYPTED\n\n{KEY}\n{END}", "a private key"),
    "access key": ("key = 'AKI" + f"A{drawn(16, UPPER)}'", "an AWS access key"),
    "temporary": ("ASI" + f"A{drawn(16, UPPER)}", "an AWS access key"),
    "profile": (f"aws_secret_access_key = {drawn(40)}", "an AWS secret key"),
    "exported": (f'export AWS_SECRET_ACCESS_KEY="{drawn(40)}"', "an AWS secret key"),
    "answer": (f'"SecretAccessKey": "{drawn(40)}"', "an AWS secret key"),
    "session": (f"AWS_SESSION_TOKEN={drawn(200)}", "an AWS session token"),
    "github": ("gh" + f"p_{drawn(36)}", "a GitHub token"),
    "github, fine": ("github" + f"_pat_{drawn(82)}", "a GitHub token"),
    "gitlab": ("glp" + f"at-{drawn(20)}", "a GitLab token"),
    "hugging face": ("h" + f"f_{drawn(34, string.ascii_letters)}", "a Hugging Face token"),
    "wandb": (f"WANDB_API_KEY={drawn(40, '0123456789abcdef')}", "a Weights & Biases key"),
    "openai": ("sk" + f"-proj-{drawn(40)}T3Blbk" + f"FJ{drawn(40)}", "an OpenAI key"),
    "anthropic": ("sk-an" + f"t-api03-{drawn(95)}", "an Anthropic key"),
    "google": ("AIz" + f"a{drawn(35)}", "a Google key"),
    "slack": ("xox" + f"b-123456789012-{drawn(24)}", "a Slack token"),
    "stripe": ("sk_li" + f"ve_{drawn(24)}", "a Stripe key"),
    "npm": ("np" + f"m_{drawn(36)}", "an npm token"),
    "npmrc": (f"//packages.example.com/:_authToken={drawn(36)}", "an npm token"),
    "docker": (f'{{"auths": {{"x": {{"auth": "{drawn(40)}"}}}}}}', "a registry's password"),
    "azure": (f"AccountKey={drawn(86)}==;", "an Azure storage key"),
    "kubeconfig": (f"client-key-data: {drawn(200)}", "a key of Kubernetes"),
}


@pytest.mark.parametrize("case", SECRETS)
def test_a_secret_in_a_file_is_refused_with_its_line_and_kind_and_never_shown(
    tmp_path: Path, case: str
) -> None:
    text, kind = SECRETS[case]
    write(tmp_path, {"train.py": f"import torch\n\n{text}\n"})
    with pytest.raises(CannotShip) as refusal:
        read_folder(tmp_path)
    assert f"train.py:3 ({kind})" in refusal.value.message
    assert text[-30:] not in refusal.value.message
    assert ALLOWED_IN in refusal.value.hint
    assert read_folder(tmp_path, include_secrets=True).files


@pytest.mark.parametrize(
    "line",
    [
        "AKI" + "AIOSFODNN7EXAMPLE",  # AWS's own examples
        "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
        "AWS_SECRET_ACCESS_KEY=${SECRET}",
        "secret_access_key=os.environ['AWS_SECRET_ACCESS_KEY']",
        "h" + "f_" + "a" * 34,
        "ghp_" + "x" * 36,
        'if "-----BEGIN RSA PRIVATE' + ' KEY-----" in text:',
        BEGIN + "\\n...\\n" + END,
        "hf_hub_download_with_retries_and_resume_of_files(path)",
        "//packages.example.com/:_authToken=${NPM_TOKEN}",
        "sha256:" + drawn(64, "0123456789abcdef"),
    ],
)
def test_code_about_secrets_and_examples_are_none(tmp_path: Path, line: str) -> None:
    write(tmp_path, {"train.py": f"{line}\n"})
    assert read_folder(tmp_path).files


def test_this_repository_would_travel() -> None:
    names = [path.relative_to(HOUSE).as_posix() for path in (HOUSE / "jobs").rglob("*.py")]
    names += [path.relative_to(HOUSE).as_posix() for path in (HOUSE / "tests/jobs").rglob("*.py")]
    assert len(names) > 300
    assert not find_secrets(HOUSE, names)


def test_the_folders_list_allows_what_it_names_and_nothing_else(tmp_path: Path) -> None:
    line = f"{SECRETS['github'][0]}\n"
    write(tmp_path, {"tests/a.py": line, "tests/b.pem": "x", "train.py": line, "c.py": f"\n{line}"})
    write(tmp_path, {ALLOWED_IN: "# made up for tests\ntests/*\n\ntrain.py\n"})
    names = [file.name for file in read_folder(tmp_path, include_secrets=True).files]
    assert find_secrets(tmp_path, names) == [FoundSecret(name="c.py", kind="a GitHub token", line=2)]


def test_a_secret_where_two_reads_meet_is_found_with_its_line(tmp_path: Path) -> None:
    text = "x" * 99 + "\n"
    token = f"{SECRETS['github'][0]}\n"
    before = (1 << 20) // len(text)
    for shift in (0, 60, 90):
        content = text * before + "y" * shift + " " + token
        (tmp_path / "log.txt").write_text(content, encoding="utf-8")
        (found,) = find_secrets(tmp_path, ["log.txt"])
        assert found.line == before + 1


def test_certificates_travel_and_a_key_beside_them_does_not(tmp_path: Path) -> None:
    certificate = f"-----BEGIN CERTIFICATE-----\n{KEY}\n-----END CERTIFICATE-----\n"
    write(tmp_path, {"ca.pem": certificate, "both.pem": f"{certificate}{BEGIN}\n{KEY}\n{END}\n"})
    (found,) = find_secrets(tmp_path, ["both.pem", "ca.pem"])
    assert (found.name, found.kind, found.line) == ("both.pem", "a private key", 4)


def test_weights_and_other_binaries_are_not_searched(tmp_path: Path) -> None:
    (tmp_path / "weights.bin").write_bytes(b"\0" * 10 + SECRETS["github"][0].encode())
    assert not find_secrets(tmp_path, ["weights.bin"])
