"""Finds what looks like a secret in a folder that will be sent, by file names and by text.

Another form of secret is a row of _FORMS; another file name a word of _FILES. Add only forms that their
issuers publish and ordinary code never has: users switch off an alarm that is often false.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from io import FileIO
from pathlib import Path

from slipway.containers.runtime.errors import Refusal
from slipway.containers.runtime.named_files import open_regular, read_bytes

ALLOWED_IN = ".not-secret"  # a file in the folder: names and patterns of files that are sent all the same


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundSecret:
    name: str  # of the file
    kind: str
    line: int | None = None  # None: the file's name alone suggests it


# File names that suggest a secret.
_FILES = (
    *(".env", ".env.*", "*.env", ".envrc"),
    *("*.pem", "*.key", "*.p12", "*.pfx", "*.ppk", "*.jks", "*.keystore", "*.kdbx"),
    *("id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*"),
    *("credentials", "credentials.*", "*.credentials", ".git-credentials", "client_secret*.json"),
    *("service-account*.json", "service_account*.json"),
    *(".netrc", "_netrc", ".pgpass", ".pypirc", ".htpasswd", "kubeconfig"),
    *("secrets.*", ".secrets", "*.secret"),
)
_FOLDERS = frozenset({".aws", ".ssh", ".kube", ".gnupg", ".azure"})
# These are meant to be read. A Python module of such a name holds code.
_HARMLESS = ("*.example", "*.sample", "*.template", "*.dist", "*.pub", "*.py", "*.pyc", "*.pyi")
_CERTIFICATE = b"-----BEGIN CERTIFICATE-----"  # a .pem with nothing else is public

# A fast text to search first, then the form, whose first group is the secret itself.
_FORMS: tuple[tuple[str, tuple[bytes, ...], bytes], ...] = (
    ("a private key", (b"PRIVATE KEY",),
     rb"-----BEGIN [A-Z ]{0,20}PRIVATE KEY(?: BLOCK)?-----(?:(?!-----)[^\0]){1,400}?([0-9A-Za-z+/]{40})"),
    ("a PuTTY key", (b"PuTTY-User-Key-File-",), rb"PuTTY-User-Key-File-\d:[^\0]{0,400}?([0-9A-Za-z+/]{64})"),
    ("an age key", (b"AGE-SECRET-KEY-1",), rb"(AGE-SECRET-KEY-1[0-9A-Z]{58})"),
    ("an AWS access key", (b"AKIA", b"ASIA"), rb"\b((?:AKIA|ASIA)[2-7A-Z]{16})\b"),
    ("an AWS secret key", (b"ecret_access_key", b"ECRET_ACCESS_KEY", b"ecretAccessKey"),
     rb"(?i)secret_?access_?key[\"']?\s{0,9}[:=]{1,2}>?\s{0,9}[\"']?([0-9a-z/+]{40})(?![0-9a-z/+=])"),
    ("an AWS session token", (b"ession_token", b"ESSION_TOKEN", b"essionToken"),
     rb"(?i)session_?token[\"']?\s{0,9}[:=]{1,2}\s{0,9}[\"']?([0-9a-z/+=]{100})"),
    ("a GitHub token", (b"ghp_", b"gho_", b"ghu_", b"ghs_", b"ghr_"), rb"\b(gh[opusr]_[0-9A-Za-z]{36})\b"),
    ("a GitHub token", (b"github_pat_",), rb"\b(github_pat_[0-9A-Za-z_]{82})\b"),
    ("a GitLab token", (b"glpat-",), rb"\b(glpat-[0-9A-Za-z_-]{20})"),
    ("a Hugging Face token", (b"hf_",), rb"\b(hf_[A-Za-z]{34})\b"),
    ("a Weights & Biases key", (b"WANDB_API_KEY", b"wandb_v1_", b"api.wandb.ai"),
     rb"(?:WANDB_API_KEY[\"']?\s{0,9}[:=]\s{0,9}[\"']?|password\s{1,9})([0-9a-f]{40})\b|\b(wandb_v1_[0-9A-Za-z_]{60,})"),
    ("an OpenAI key", (b"T3BlbkFJ",), rb"\b(sk-[0-9A-Za-z_-]{20,}T3BlbkFJ[0-9A-Za-z_-]{20,})"),
    ("an Anthropic key", (b"sk-ant-",), rb"\b(sk-ant-[a-z]{2,9}\d\d-[0-9A-Za-z_-]{80,})"),
    ("a Google key", (b"AIza",), rb"\b(AIza[0-9A-Za-z_-]{35})(?![0-9A-Za-z_-])"),
    ("an Azure storage key", (b"AccountKey=",), rb"AccountKey=([0-9A-Za-z+/]{86}==)"),
    ("a Slack token", (b"xoxb-", b"xoxp-", b"xoxa-", b"xoxs-"), rb"\b(xox[abps]-\d{9,}-[0-9A-Za-z-]{20,})"),
    ("a Slack webhook", (b"hooks.slack.com/",),
     rb"hooks\.slack\.com/services/(T[0-9A-Z]{8,}/B[0-9A-Z]{8,}/[0-9A-Za-z]{20,})"),
    ("a Stripe key", (b"sk_live_", b"rk_live_"), rb"\b([rs]k_live_[0-9A-Za-z]{24,})"),
    ("a SendGrid key", (b"SG.",), rb"\b(SG\.[0-9A-Za-z_-]{22}\.[0-9A-Za-z_-]{43})(?![0-9A-Za-z_-])"),
    ("an npm token", (b"npm_",), rb"\b(npm_[0-9A-Za-z]{36})\b"),
    ("an npm token", (b"_authToken",), rb"_authToken\s{0,9}=\s{0,9}[\"']?([0-9A-Za-z_+/=-]{20,})"),
    ("a PyPI token", (b"pypi-AgE",), rb"\b(pypi-AgE[0-9A-Za-z_-]{60,})"),
    ("a registry's password", (b'"auths"',), rb'"auth"\s{0,9}:\s{0,9}"([0-9A-Za-z+/=]{20,})"'),
    ("a key of Kubernetes", (b"client-key-data",), rb"client-key-data:\s{0,9}([0-9A-Za-z+/=]{100,})"),
)  # fmt: skip
_SEARCHED = tuple((kind, starts, re.compile(form)) for kind, starts, form in _FORMS)
_EXAMPLES = re.compile(rb"(?i)example|xxxx|your")  # AKIAIOSFODNN7EXAMPLE is AWS's own example
_LEAST_DIFFERENT = 8  # different characters: hf_aaaa… in a test is no token

_READ_BYTES = 1 << 20
_LONGEST = 8 << 10  # bytes that a form may span: reads overlap by as many
_TELLS_BINARY = 8000  # git looks for a NUL in these first bytes


def find_secrets(folder: Path, names: Iterable[str]) -> list[FoundSecret]:
    """Return what looks like a secret in these files, except in those that the folder's .not-secret names."""
    names, allowed = list(names), tuple[str, ...]()
    if ALLOWED_IN in names:
        lines = read_bytes(folder / ALLOWED_IN, _READ_BYTES).decode("utf-8", "replace").splitlines()
        allowed = tuple(line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#"))
    return [found for name in names if not _fits(name, allowed) for found in _in_file(folder, name)]


def _in_file(folder: Path, name: str) -> Iterator[FoundSecret]:
    promises = promises_secret(name)
    if promises and not name.endswith(".pem"):
        yield FoundSecret(name=name, kind="its name")
        return
    try:
        with open_regular(folder / name, follow_links=False) as file:
            if promises and not _holds_certificates(file):
                yield FoundSecret(name=name, kind="its name")
                return
            yield from (FoundSecret(name=name, kind=kind, line=line) for kind, line in _in_text(file))
    except (OSError, Refusal):
        return  # a link; packing refuses, by name, what cannot be read


def _holds_certificates(file: FileIO) -> bool:
    found = _CERTIFICATE in file.read(_READ_BYTES)
    file.seek(0)
    return found


def _in_text(file: FileIO) -> Iterator[tuple[str, int]]:
    """Yield each kind of secret once, with its first line, unless the file is binary."""
    kinds: set[str] = set()
    beginning = file.read(_TELLS_BINARY)
    if b"\0" in beginning:
        return
    lines_before, kept = 0, b""
    while read := beginning or file.read(_READ_BYTES):
        text, beginning = kept + read, b""
        for kind, place in _in_bytes(text):
            if kind not in kinds:
                kinds.add(kind)
                yield kind, lines_before + text.count(b"\n", 0, place) + 1
        kept = text[-_LONGEST:]
        lines_before += text.count(b"\n", 0, len(text) - len(kept))


def _in_bytes(text: bytes) -> Iterator[tuple[str, int]]:
    for kind, starts, form in _SEARCHED:
        if not any(start in text for start in starts):
            continue
        for found in form.finditer(text):
            secret = next(filter(None, found.groups()))
            if len(set(secret)) >= _LEAST_DIFFERENT and not _EXAMPLES.search(secret):
                yield kind, found.start()
                break


def promises_secret(name: str) -> bool:
    *folders, last = name.lower().split("/")
    if _FOLDERS & set(folders):
        return True
    return _fits(last, _FILES) and not _fits(last, _HARMLESS)


def _fits(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
