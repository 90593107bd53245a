"""The one door to AWS: every boto3 client is made here, so that retries and the endpoint are decided once."""

from __future__ import annotations

import ipaddress
import os
from functools import lru_cache
from typing import Any
from urllib.parse import urlparse


def endpoint() -> str | None:
    """The endpoint that the environment asks for; None means AWS itself."""
    return os.environ.get("AWS_ENDPOINT_URL") or None


def is_loopback(url: str) -> bool:
    host = urlparse(url).hostname or ""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


@lru_cache(maxsize=64)
def client(service: str, region: str | None = None) -> Any:
    """A client with the user's own credentials and endpoint. It never repeats a request by itself.

    botocore re-sends a request whose response was lost; for calls without an idempotency token (SubmitJob,
    CreateTrainingJob) that makes two jobs. Callers that may repeat do so knowingly.
    """
    import boto3
    from botocore.config import Config

    return boto3.client(service, region_name=region, config=Config(retries={"total_max_attempts": 1}))


@lru_cache(maxsize=64)
def client_at(url: str, service: str, region: str, access_key_id: str, secret_access_key: str) -> Any:
    """A client to one endpoint with keys of its own."""
    import boto3
    from botocore.config import Config

    return boto3.client(
        service,
        region_name=region,
        endpoint_url=url,
        aws_access_key_id=access_key_id,
        aws_secret_access_key=secret_access_key,
        config=Config(retries={"total_max_attempts": 1}, s3={"addressing_style": "path"}),
    )
