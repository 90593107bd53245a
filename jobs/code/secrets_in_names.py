"""Which names of files promise a secret. Another kind is a word of a table; contents are not read."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase

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
# These are made to be shown. A Python module of that name holds code.
_HARMLESS = ("*.example", "*.sample", "*.template", "*.dist", "*.pub", "*.py")


def secret_names(names: Iterable[str]) -> list[str]:
    """Return the names of files that look like secrets, in the order given."""
    return [name for name in names if _promises_secret(name)]


def _promises_secret(name: str) -> bool:
    *folders, last = name.lower().split("/")
    if _FOLDERS & set(folders):
        return True
    return _fits(last, _FILES) and not _fits(last, _HARMLESS)


def _fits(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
