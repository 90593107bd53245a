"""The clients of a provider of OpenID Connect: moto keeps them, and offers no call that changes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slipway.yard.moto_backends import moto_backend

ADD = "AddClientIDToOpenIDConnectProvider"


def call(operation: str, parameters: Mapping[str, Any], region: str) -> Mapping[str, Any]:
    """Add a client, or remove one; to do either again changes nothing, as on AWS."""
    provider = moto_backend("iam").get_open_id_connect_provider(parameters["OpenIDConnectProviderArn"])
    others = [client for client in provider.client_id_list if client != parameters["ClientID"]]
    provider.client_id_list = [*others, parameters["ClientID"]] if operation == ADD else others
    return {}
