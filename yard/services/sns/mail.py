"""Keeps the mails that AWS would send; `slipway yard mail` shows them."""

from __future__ import annotations

import threading
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

MOST_KEPT = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Mail:
    to: str
    subject: str
    text: str
    sent_at: str


_mails: list[Mail] = []
_lock = threading.Lock()


def send(to: str, subject: str, text: str) -> None:
    mail = Mail(to=to, subject=subject, text=text, sent_at=datetime.now(UTC).isoformat(timespec="seconds"))
    with _lock:
        _mails.append(mail)
        del _mails[:-MOST_KEPT]


def listed() -> list[dict[str, Any]]:
    """Return the mails, the oldest first."""
    with _lock:
        return [asdict(mail) for mail in _mails]


def reset() -> None:
    with _lock:
        _mails.clear()
