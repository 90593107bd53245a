"""Access to moto's records: the yard's services read and change them where no AWS call could."""

from __future__ import annotations

from typing import Any

from slipway.yard.endpoint import ACCOUNT

EVERYWHERE = "aws"  # moto's region for global services: IAM, and bucket names


def moto_backend(service: str, region: str = EVERYWHERE) -> Any:
    """Return moto's backend of a service in a region."""
    from moto.backends import get_backend

    return get_backend(service)[ACCOUNT][region]


def moto_errors() -> tuple[type[Exception], ...]:
    """Return what moto raises where it answers a call with an error."""
    from moto.core.exceptions import ServiceException
    from werkzeug.exceptions import HTTPException

    return ServiceException, HTTPException
