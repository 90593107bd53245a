"""This machine's network settings for a bake: name servers, certificates, proxies and pip's settings.

They are in folders that are bound into /run/slipway while a step runs; the image keeps none of them.
"""

from __future__ import annotations

import os
import re
import shutil
import ssl
import subprocess
import sys
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

INSIDE = "/run/slipway"
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# Each tool has its own variable for the file of certificates.
CERTIFICATES = ("SSL_CERT_FILE", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "PIP_CERT", "GIT_SSL_CAINFO")
PROXIES = tuple(
    name for each in ("http_proxy", "https_proxy", "no_proxy", "all_proxy") for name in (each, each.upper())
)
RETRIES = "1"  # pip tries an unreachable address only twice
# pip's settings for package sources; a bake does not get any others.
PLACES = ("index_url", "extra_index_url", "find_links", "trusted_host")
_REMOTE = re.compile(r"(?!file:)\w+://")
_LOCAL = re.compile(r"(file://)?(/[^\s,]+)")


def prepare(run: Path) -> list[tuple[str, str]]:
    """Fill the folder that will be /run; return (folder, name in the machine) of folders that pip reads."""
    folder = run / "slipway"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "downloads").mkdir(exist_ok=True)
    _copy(Path("/etc/resolv.conf"), folder / "resolv.conf")
    named = os.environ.get("SSL_CERT_FILE") or ssl.get_default_verify_paths().cafile
    _copy(Path(named or "/etc/ssl/certs/ca-certificates.crt"), folder / "ca.crt")
    shared: dict[str, str] = {}
    lines = [f"{name} = {_moved(value, shared)}" for name, value in _pip_settings().items()]
    (folder / "pip.conf").write_text("[global]\n" + "".join(f"{line}\n" for line in lines), encoding="utf-8")
    return [(source, target.lstrip("/")) for source, target in shared.items()]


def environment() -> dict[str, str]:
    """Return the environment of every step, in which systemctl enables units but starts none."""
    certificates = dict.fromkeys(CERTIFICATES, f"{INSIDE}/ca.crt")
    proxies = {name: os.environ[name] for name in PROXIES if os.environ.get(name)}
    pip = {
        "PIP_CONFIG_FILE": f"{INSIDE}/pip.conf",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_RETRIES": RETRIES,
    }
    fixed = {"HOME": "/root", "PATH": PATH, "LANG": "C.UTF-8", "SYSTEMD_OFFLINE": "1"}
    return {**fixed, **certificates, **pip, **proxies}


def _copy(source: Path, target: Path) -> None:
    if source.is_file():
        shutil.copyfile(source, target)
    else:
        target.touch()


@lru_cache(maxsize=1)
def _pip_settings() -> Mapping[str, str]:
    """Read pip's settings from files and from the environment, which takes precedence, as for pip."""
    found: dict[str, str] = {}
    for line in _pip_config().splitlines():
        name, _, value = line.partition("=")
        setting = name.strip().rpartition(".")[2].replace("-", "_")  # pip treats both alike
        if setting in PLACES:
            found[setting] = value.strip().strip("'\"").replace("\\n", " ")
    return found


def _pip_config() -> str:
    """Return pip's settings, from this machine's pip if this environment has none, as with uv."""
    elsewhere = shutil.which("pip") or shutil.which("pip3")
    for pip in ([sys.executable, "-m", "pip"], [elsewhere or "false"]):
        asked = subprocess.run([*pip, "config", "list"], capture_output=True, text=True, check=False)
        if asked.returncode == 0:
            return asked.stdout
    return ""


def _moved(value: str, shared: dict[str, str]) -> str:
    """Return the value with this machine's folders replaced by their names inside; URLs stay."""

    def there(found: re.Match[str]) -> str:
        path = Path(found[2])
        if not path.is_dir():
            return found[0]
        # An index page links to files next to it, so its folder is needed.
        folder, rest = (path.parent, path.name) if found[1] else (path, "")
        target = shared.setdefault(str(folder), f"{INSIDE}/pip-{len(shared)}")
        return f"{found[1] or ''}{target}/{rest}"

    return " ".join(_LOCAL.sub(there, word) if not _REMOTE.match(word) else word for word in value.split())
