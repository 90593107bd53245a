"""Slurm accounting of one cluster: slurmdbd and its MariaDB, on the controller's host beside slurmctld.

Only the controller's host reaches the database: it has no port, and its socket is in the cluster's private
folder. It starts empty; slurmdbd makes its tables.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

PORT = 6819  # slurmdbd.conf(5), DbdPort
CONF = "slurmdbd.conf"  # slurmdbd looks for it next to slurm.conf
PROCESS = "slurmdbd.pid"
DATABASE = "state/accounts"  # outlives the host, as in PCS
_PURGED = ("Event", "Job", "Resv", "Step", "Suspend", "TXN", "Usage")
_NEVER = -1
# As small as possible; flushed once a second.
_MARIADB = (
    "mariadbd",
    "--no-defaults",
    "--skip-networking",
    "--skip-grant-tables",  # only one user can reach its socket
    "--silent-startup",
    "--innodb-buffer-pool-size=16M",
    "--innodb-log-file-size=4M",
    "--innodb-flush-log-at-trx-commit=2",
    "--innodb-lock-wait-timeout=900",
)


def purge_days(given: Mapping[str, Any]) -> int | None:
    """Return after how many days a cluster's records are purged, -1 for never; None: no accounting."""
    accounting = (given.get("slurmConfiguration") or {}).get("accounting") or {}
    if accounting.get("mode") != "STANDARD":
        return None
    return int(accounting.get("defaultPurgeTimeInDays", _NEVER))


def slurm_lines(address: str) -> dict[str, str]:
    """Return the settings for slurm.conf."""
    return {
        "AccountingStorageType": "accounting_storage/slurmdbd",
        "AccountingStorageHost": address,
        "AccountingStoragePort": str(PORT),
    }


def slurmdbd_conf(days: int, *, folder: str, user: str, port: int, auth: str) -> str:
    purges = {f"Purge{each}After": f"{days}days" for each in _PURGED} if days != _NEVER else {}
    lines = {
        "AuthType": "auth/munge",
        **({"AuthInfo": auth} if auth else {}),
        "DbdHost": "localhost",
        "DbdPort": str(port),
        "SlurmUser": user,
        "StorageType": "accounting_storage/mysql",
        "StorageHost": "localhost",
        "StorageLoc": "slurm_acct_db",
        "StorageUser": user,
        "LogFile": f"{folder}/slurmdbd.log",
        "PidFile": f"{folder}/{PROCESS}",
        **purges,
    }
    return "".join(f"{name}={value}\n" for name, value in lines.items())


def units(folder: str, user: str) -> Iterator[Mapping[str, Any]]:
    """Yield the units for accounting, which wait until it is switched on."""
    socket, data = f"{folder}/sql", f"{folder}/{DATABASE}"
    places = (
        f"--datadir={data}",
        f"--socket={socket}",
        f"--pid-file={folder}/mariadbd.pid",
        f"--user={user}",
    )
    keeper = ("env", f"SLURM_CONF={folder}/slurm.conf", f"MYSQL_UNIX_PORT={socket}", "slurmdbd", "-D")
    yield {"name": "mariadb.service", "argv": _once_there(f"{folder}/{CONF}", (*_MARIADB, *places))}
    yield {"name": "slurmdbd.service", "argv": _once_there(socket, keeper)}


def _once_there(awaited: str, command: Sequence[str]) -> tuple[str, ...]:
    return (
        "sh",
        "-c",
        f"until [ -e {shlex.quote(awaited)} ]; do sleep 0.1; done; exec {shlex.join(command)}",
    )
