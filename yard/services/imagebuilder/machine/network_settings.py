"""What of this machine's network a bake needs: name servers, certificates, proxies and pip's settings.

All of it is in folders that are bound into /run/slipway while a step runs; the image keeps none of it.
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
# Each tool has its own name for the file of certificates.
CERTIFICATES = ("SSL_CERT_FILE", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "PIP_CERT", "GIT_SSL_CAINFO")
PROXIES = tuple(
    name for each in ("http_proxy", "https_proxy", "no_proxy", "all_proxy") for name in (each, each.upper())
)
RETRIES = "1"  # an address that is out of reach here is asked for once more, and then done without
# pip's settings that say where packages are; the others are this machine's own affair.
PLACES = ("index_url", "extra_index_url", "find_links", "trusted_host")
_REMOTE = re.compile(r"(?!file:)\w+://")
_LOCAL = re.compile(r"(file://)?(/[^\s,]+)")


def prepare(run: Path) -> list[tuple[str, str]]:
    """Fill the folder that will be /run; returns the (folder, name in the machine) that pip reads besides."""
    folder = run / "slipway"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "downloads").mkdir(exist_ok=True)
    _copy(Path("/etc/resolv.conf"), folder / "resolv.conf")
    _copy(_certificates(), folder / "ca.crt")
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
    own = {"HOME": "/root", "PATH": PATH, "LANG": "C.UTF-8", "SYSTEMD_OFFLINE": "1"}
    return {**own, **certificates, **pip, **proxies}


def _certificates() -> Path:
    named = os.environ.get("SSL_CERT_FILE") or ssl.get_default_verify_paths().cafile
    return Path(named) if named else Path("/etc/ssl/certs/ca-certificates.crt")


def _copy(source: Path, target: Path) -> None:
    if source.is_file():
        shutil.copyfile(source, target)
    else:
        target.touch()


@lru_cache(maxsize=1)
def _pip_settings() -> Mapping[str, str]:
    """Read pip's settings from files and then from the environment, which wins, as pip does."""
    found: dict[str, str] = {}
    for line in _pip_config().splitlines():
        name, _, value = line.partition("=")
        setting = name.strip().rpartition(".")[2].replace("-", "_")  # pip takes both for the same
        if setting in PLACES:
            found[setting] = value.strip().strip("'\"").replace("\\n", " ")
    return found


def _pip_config() -> str:
    """Ask this environment's pip, or, since one that uv made has none, the machine's."""
    elsewhere = shutil.which("pip") or shutil.which("pip3")
    for pip in ([sys.executable, "-m", "pip"], [elsewhere or "false"]):
        asked = subprocess.run([*pip, "config", "list"], capture_output=True, text=True, check=False)
        if asked.returncode == 0:
            return asked.stdout
    return ""


def _moved(value: str, shared: dict[str, str]) -> str:
    """Folders of this machine under the names that they get in the other; addresses stay."""

    def there(found: re.Match[str]) -> str:
        path = Path(found[2])
        if not path.is_dir():
            return found[0]
        # The pages of an index link to files next to it.
        folder, rest = (path.parent, path.name) if found[1] else (path, "")
        target = shared.setdefault(str(folder), f"{INSIDE}/pip-{len(shared)}")
        return f"{found[1] or ''}{target}/{rest}"

    return " ".join(_LOCAL.sub(there, word) if not _REMOTE.match(word) else word for word in value.split())
